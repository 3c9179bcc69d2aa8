"""The metrics of a run: the file that holds them, and how they compare two models. Imports neither torch nor Lightning.

Models are compared by ``training.monitor``, and by validation loss where it cannot decide.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

COLUMNS = ("step", "epoch", "train_loss", "valid_loss", "valid_accuracy", "valid_bleu", "valid_chrf", "lr")
HEADER = ",".join(COLUMNS)
LOSS = "valid_loss"
PERCENT = ("valid_bleu", "valid_chrf")
NEAR_ZERO = 1.0  # a BLEU below 1 comes from smoothing and chance
DECIMALS = 2  # those that the run prints

Quality = tuple[float, float]


def quality(values: Mapping[str, Any], monitor: str) -> Quality:
    """Return a pair that compares as larger for the better model.

    The monitored score comes first. BLEU and chrF are rounded to two decimals, and below 1 they count as 0. Equal
    scores are compared by ``valid_loss``, the smaller the better.
    """
    loss = -float(values[LOSS])
    if monitor == LOSS:
        return loss, loss
    score = float(values[monitor])
    if monitor in PERCENT:
        score = 0.0 if score < NEAR_ZERO else round(score, DECIMALS)
    return score, loss


def read_metrics(path: Path) -> dict[str, list[tuple[int, float]]]:
    """Return the (update, value) points of each metric in a metrics file, without damaged rows."""
    columns: dict[str, list[tuple[int, float]]] = {}
    for row in read_rows(path)[0]:
        for name, value in zip(COLUMNS, row, strict=True):
            if value and name not in ("step", "epoch"):
                columns.setdefault(name, []).append((int(row[0]), float(value)))
    return columns


def read_rows(path: Path) -> tuple[list[list[str]], int]:
    """Return the intact rows of a metrics file, each with one text per column, and the number of damaged lines.

    An intact row ends with a line break and has all columns. Its step is a whole number from 0 to 2⁶³ - 1, and its
    other columns have numbers or nothing.
    """
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    torn = bool(lines.pop())  # the last line has no line break
    rows = [line.removesuffix("\r").split(",") for line in lines if line.removesuffix("\r") != HEADER]
    intact = [row for row in rows if _is_intact(row)]
    return intact, len(rows) - len(intact) + torn


def _is_intact(row: list[str]) -> bool:
    try:
        step = int(row[0])
        [float(value) for value in row[1:] if value]
    except ValueError:
        return False
    return len(row) == len(COLUMNS) and 0 <= step < 1 << 63
