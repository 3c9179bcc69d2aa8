"""The metrics of a run: the file that holds them, and how they rank models. Imports neither torch nor Lightning."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

COLUMNS = ("step", "epoch", "train_loss", "valid_loss", "valid_accuracy", "valid_bleu", "valid_chrf", "lr")
LOSS = "valid_loss"
PERCENT = ("valid_bleu", "valid_chrf")
QUALITY = "valid_quality"
NEAR_ZERO = 1.0  # a BLEU below 1 comes from smoothing and chance


def quality(values: Mapping[str, Any], monitor: str) -> float:
    """Return a number that is larger for the better model: ``training.monitor``.

    BLEU and chrF have two decimals; below 1, the negative ``valid_loss`` decides.
    """
    score = float(values[monitor])
    if monitor == LOSS or (monitor in PERCENT and score < NEAR_ZERO):
        return -float(values[LOSS])
    return round(score, 2) if monitor in PERCENT else score


def read_metrics(path: Path) -> dict[str, list[tuple[int, float]]]:
    """Return the (update, value) points of each metric in a metrics file."""
    columns: dict[str, list[tuple[int, float]]] = {}
    for row in read_rows(path):
        for name, value in row.items():
            if value and name not in ("step", "epoch"):
                columns.setdefault(name, []).append((int(row["step"]), float(value)))
    return columns


def read_rows(path: Path) -> list[dict[str, str]]:
    """Return the rows of a metrics file by column, without the header and lines that are damaged or cut off."""
    rows = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        values = line.split(",")
        try:
            step, _ = int(values[0]), [float(value) for value in values[1:] if value]
        except ValueError:
            continue
        if len(values) == len(COLUMNS) and 0 <= step < 1 << 63:
            rows.append(dict(zip(COLUMNS, values, strict=True)))
    return rows
