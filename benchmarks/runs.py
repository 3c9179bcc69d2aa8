"""Training runs as a benchmark's cells: each a process of its own, its summary and its last metrics."""

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
    """Summary of the run ``runs``/``name``, with its last value of each metric under ``metrics``.

    A run that is there already and whole is not run again, so that an interrupted benchmark goes on.
    """
    folder = runs / name
    if not (folder / "summary.json").is_file():
        resume = ["resume=true"] if (folder / "checkpoints" / "last.ckpt").is_file() else []
        command = [sys.executable, "-m", "nmt.commands.train", f"runs={runs}", f"name={name}", f"threads={threads}"]
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
        done = subprocess.run([*command, *settings, *resume], env=environment, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{' '.join(settings)}:\n{done.stderr}")
    summary: dict[str, Any] = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    return {**summary, "metrics": last_metrics(folder / "metrics.csv")}


def last_metrics(file: Path) -> dict[str, float]:
    """The last value of each column of a metrics file."""
    last: dict[str, float] = {}
    with file.open(newline="", encoding="utf-8") as rows:
        for row in csv.DictReader(rows):
            last |= {name: float(value) for name, value in row.items() if value}
    return last
