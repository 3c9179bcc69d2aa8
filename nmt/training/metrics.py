"""The metrics of a run: the file that holds them, their curves, and how they rank models. Imports no torch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nmt.alignment.figures import LEGEND, finish_axes, fonts_for, legend_text, new_figure, styles_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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


Curves = Mapping[str, Sequence[Mapping[str, Sequence[tuple[int, float]]]]]
"""By label: the metrics of each run, by update."""


def draw_curves(curves: Curves) -> Figure:
    """Draw losses, and validation BLEU if it was measured, against updates; lines of the training loss are pale."""
    titles = {LOSS: "loss, nats per piece"}
    if any("valid_bleu" in run for runs in curves.values() for run in runs):
        titles["valid_bleu"] = "validation BLEU, greedy"
    figure = new_figure(5.2 * len(titles), 4)
    panels = figure.subplots(1, len(titles), squeeze=False)[0]
    for axes, (metric, title) in zip(panels, titles.items(), strict=True):
        for label, style in styles_of([*curves]).items():
            for number, run in enumerate(curves[label]):
                points = zip(*run.get(metric, [(0, math.nan)]), strict=True)
                axes.plot(*points, label="_" if number else legend_text(label), marker="o", markersize=3, **style)
                if metric == LOSS and "train_loss" in run:
                    axes.plot(*zip(*run["train_loss"], strict=True), alpha=0.4, **style)
        axes.locator_params("x", integer=True, min_n_ticks=1)
        finish_axes(axes, "updates", title)
    with fonts_for(curves):
        panels[0].legend(**LEGEND)
    return figure
