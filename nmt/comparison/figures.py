"""Figures of the report, each as PNG, SVG and PDF."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nmt.alignment.figures import (
    POINTS,
    draw_bar,
    draw_weights,
    fonts_for,
    label_cells,
    new_figure,
    save_figure,
    scales_of,
    xml_safe,
)
from nmt.comparison.measures import Column
from nmt.comparison.results import Point, Row, pareto_front
from nmt.data.links import Link

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MARKERS = "osD^vPX"
LINES = ("-", "--", "-.", ":")
MAX_LABELS = 60  # a side of a heatmap with more labels is numbered
CELL = 0.17 * POINTS
FONT_SIZE = 7.0  # points
LEGEND: dict[str, Any] = {"frameon": False, "fontsize": "small"}
Curves = Mapping[str, Sequence[Mapping[str, Sequence[tuple[int, float]]]]]


class Panel(NamedTuple):
    """A heatmap: weights with the labels of its rows and columns (none: numbers), and gold links (column, row).

    Panels of one ``quantity`` share a scale. Colours (rows, columns, 3) in place of weights have none.
    """

    title: str
    weights: np.ndarray
    rows: Sequence[str]
    columns: Sequence[str]
    gold: Collection[Link] = ()
    quantity: str = ""


def save_formats(figure: Figure, path: Path) -> Path:
    """Save the figure as ``path`` with the suffixes .png, .svg and .pdf. Return the path of the PNG."""
    for suffix in (".svg", ".pdf", ".png"):
        save_figure(figure, path.with_suffix(suffix))
    return path.with_suffix(".png")


def styles_of(labels: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the colour and line style of each model. Line styles help readers who cannot distinguish the colours."""
    from matplotlib import colormaps

    palette = colormaps["tab10" if len(labels) <= 10 else "tab20"].colors  # type: ignore[attr-defined]
    cycles = zip(labels, cycle(palette), cycle(LINES), strict=False)
    return {label: {"color": colour, "linestyle": line} for label, colour, line in cycles}


def draw_curves(curves: Curves) -> Figure | None:
    """Draw validation loss and BLEU against updates, one line per run; None if no run has metrics."""
    metrics = {"valid_loss": "validation loss, nats per piece", "valid_bleu": "validation BLEU, greedy"}
    shown = [metric for metric in metrics if any(run.get(metric) for runs in curves.values() for run in runs)]
    if not shown:
        return None
    figure = new_figure(5.2 * len(shown), 4)
    styles = styles_of([*curves])
    for axes, metric in zip(figure.subplots(1, len(shown), squeeze=False)[0], shown, strict=True):
        for label, runs in curves.items():
            style = {**styles[label], "marker": "o", "markersize": 3, "alpha": 1.0 if len(runs) == 1 else 0.6}
            for number, run in enumerate(runs):
                if points := run.get(metric):
                    updates, values = zip(*points, strict=True)
                    name = "_" if number else _safe(label)
                    axes.plot([update + 1 for update in updates], values, label=name, **style)
        _finish(axes, "updates", metrics[metric])
    axes.legend(**LEGEND)
    return figure


def draw_pareto(points: Sequence[Point]) -> Figure:
    """Draw BLEU against decoding time; a line joins the points that no other point beats in both."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, StrMethodFormatter

    figure = new_figure(8, 4.6)
    axes = figure.add_subplot()
    times = [point.milliseconds for point in points]
    axes.set_xscale("log")  # with limits, before drawing: matplotlib warns of equal times that are a power of ten
    axes.set_xlim(0.8 * min(times), 1.25 * max(times))
    beams = sorted({point.beam for point in points})
    shades = {label: style["color"] for label, style in styles_of([*dict.fromkeys(p.label for p in points)]).items()}
    markers = dict(zip(dict.fromkeys(point.engine for point in points), cycle(MARKERS), strict=False))
    front = pareto_front(points)
    for point in points:
        axes.scatter(
            point.milliseconds,
            point.bleu,
            s=30 + 50 * beams.index(point.beam),
            marker=markers[point.engine],
            color=shades[point.label],
            edgecolors="black" if point in front else "none",
            zorder=2,
        )
    entries = [(_safe(label), {"color": shade}) for label, shade in shades.items()]
    entries += [(engine, {"marker": marker}) for engine, marker in markers.items()]
    entries += [(f"beam {beam}", {"markersize": 5 + 2 * number}) for number, beam in enumerate(beams)]
    for label, style in entries:
        axes.plot([], [], label=label, **{"linestyle": "none", "marker": "o", "color": "0.4", **style})
    line = [point.milliseconds for point in front], [point.bleu for point in front]
    axes.plot(*line, color="0.6", zorder=1, label="Pareto front")
    # Powers of ten would be too few numbers for a short range, and all multiples too many for a long one.
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)) if max(times) > 10 * min(times) else MaxNLocator(6))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    _finish(axes, "milliseconds per sentence, log scale", "BLEU of the timed sentences")
    axes.legend(**LEGEND, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def draw_lengths(
    rows: Sequence[Row], labels: Sequence[str], bleu: Sequence[Column], times: Sequence[Column], conditions: str
) -> Figure:
    """Draw BLEU and milliseconds per sentence for each bucket of source lengths.

    ``conditions`` names engine and beam size.
    """
    figure = new_figure(10.4, 4)
    styles = styles_of([row.label for row in rows])
    panels = ((bleu, "BLEU"), (times, f"milliseconds per sentence, {conditions}"))
    for axes, (columns, title) in zip(figure.subplots(1, 2), panels, strict=True):
        for row in rows:
            shown = [(x, row.values[column.key]) for x, column in enumerate(columns) if column.key in row.values]
            if shown:
                positions, values = zip(*shown, strict=True)
                # One run has no deviation. matplotlib draws no bar of length nan.
                bars = [stdev(numbers) if len(numbers) > 1 else math.nan for numbers in values]
                style = {**styles[row.label], "marker": "o", "capsize": 2}
                axes.errorbar(positions, [*map(fmean, values)], bars, label=_safe(row.label), **style)
        axes.set_xticks(range(len(labels)), labels)
        axes.set_xlim(-0.4, len(labels) - 0.6)
        _finish(axes, "source length, pieces", title)
    axes.set_ylim(0, 1.05 * axes.get_ylim()[1])
    for axes in figure.axes[::-1]:  # the right panel is empty if nothing could be timed
        if axes.get_legend_handles_labels()[0]:
            axes.legend(**LEGEND)
            break
    return figure


def _finish(axes: Axes, x: str, y: str) -> None:
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.grid(alpha=0.3, which="both")


def draw_heatmaps(panels: Sequence[Panel], *, columns: int = 3) -> Figure:
    """Draw heatmaps beside each other, at most ``columns`` in a line.

    Panels of one quantity share a scale if their weights lie between 0 and 1, and another scale otherwise. If all
    panels share one scale, the figure has one bar.
    """
    count = min(columns, len(panels))
    lines = -(-len(panels) // count)
    by_quantity = {panel.quantity: [other for other in panels if other.quantity == panel.quantity] for panel in panels}
    scales_by_quantity = {key: iter(scales_of([p.weights for p in group])) for key, group in by_quantity.items()}
    scales = [next(scales_by_quantity[panel.quantity]) for panel in panels]
    with fonts_for(text for panel in panels for text in (panel.title, *panel.rows, *panel.columns)):
        figure = new_figure(4.6 * count, 2.2 * lines)  # its titles and ticks keep these fonts
        grid = figure.subplots(lines, count, squeeze=False).flat
        used = list(zip(grid, panels, strict=False))
        images = [
            draw_weights(axes, panel.weights, scale, gold=panel.gold, title=panel.title, size=FONT_SIZE)
            for (axes, panel), scale in zip(used, scales, strict=True)
        ]
        sizes = [_label_panel(axes, panel, CELL) for axes, panel in used]
        width, height = (max(side) / POINTS + 1.2 for side in zip(*sizes, strict=True))
        figure.set_size_inches(
            max(4.6, width) * count, max(2.2, height) * lines
        )  # the layout needs room for the labels
        bars = [
            (axes, image, scale)
            for (axes, panel), image, scale in zip(used, images, scales, strict=True)
            if panel.weights.ndim == 2
        ]
        if len({scale for *_, scale in bars}) == 1:
            draw_bar(figure, bars[0][1], bars[0][2], ax=[axes for axes, *_ in bars], shrink=0.8, aspect=30)
        else:
            for axes, image, scale in bars:
                draw_bar(figure, image, scale, ax=axes)
        for axes in grid[len(panels) :]:
            axes.set_axis_off()
        figure.draw_without_rendering()  # decides how large the cells are
        for axes, panel in used:
            _label_panel(axes, panel)
    return figure


def _label_panel(axes: Axes, panel: Panel, pitch: float | None = None) -> list[float]:
    """Label the cells, which are ``pitch`` points wide and high, or as large as they are now.

    Returns the size of cells and labels in points.
    """
    box = axes.get_window_extent()
    points = POINTS / axes.figure.dpi
    rows, columns = panel.weights.shape[:2]
    across = min(columns, MAX_LABELS) * CELL
    down = min(rows, MAX_LABELS) * CELL
    if panel.columns and columns <= MAX_LABELS:
        down += label_cells(axes, "x", panel.columns, pitch=pitch or points * box.width / columns, size=FONT_SIZE)
    if panel.rows and rows <= MAX_LABELS:
        across += label_cells(axes, "y", panel.rows, pitch=pitch or points * box.height / rows, size=FONT_SIZE)
    return [across, down]


def _safe(text: str) -> str:
    """Return the text of a legend: matplotlib reads text between two ``$`` as a formula, and hides ``_text``."""
    shown = xml_safe(text).replace("$", r"\$")
    return f" {shown}" if shown.startswith("_") else shown
