"""Training runs as cells of a benchmark: each runs in a process and is reused if it exists."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def train(runs: Path, name: str, settings: Sequence[str], *, threads: int) -> dict[str, Any]:
    """Train ``runs``/``name`` and return its summary, with the last value of each metric under ``metrics``.

    A finished run is reused and an interrupted one resumed, so that a benchmark can be started again.
    Exits with the error output if training fails.
    """
    folder = runs / name
    if not (folder / "summary.json").is_file():
        resume = ["resume=true"] if (folder / "checkpoints" / "last.ckpt").is_file() else []
        command = [sys.executable, "-m", "nmt.commands.train", f"runs={runs}", f"name={name}", f"threads={threads}"]
        command.append("export=false")
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
        result = subprocess.run([*command, *settings, *resume], env=environment, capture_output=True, text=True)
        if result.returncode:
            sys.exit(f"{' '.join(settings)}:\n{result.stderr}")
    summary = finished(runs, name)
    assert summary is not None
    return summary


def finished(runs: Path, name: str) -> dict[str, Any] | None:
    """Return the summary of ``runs``/``name``, with the last value of each metric, or None if it has not finished."""
    folder = runs / name
    if not (folder / "summary.json").is_file():
        return None
    summary: dict[str, Any] = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    return {**summary, "metrics": last_metrics(folder / "metrics.csv")}


def last_metrics(file: Path) -> dict[str, float]:
    """Return the last value of each column of a metrics file."""
    metrics: dict[str, float] = {}
    with file.open(newline="", encoding="utf-8") as rows:
        for row in csv.DictReader(rows):
            metrics |= {name: float(value) for name, value in row.items() if value}
    return metrics
