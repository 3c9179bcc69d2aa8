"""Figures of the report, each as PNG, SVG and PDF."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nmt.alignment.colours import scales_of
from nmt.alignment.figures import POINTS, draw_bar, draw_weights, fonts_for, label_cells, new_figure, xml_safe
from nmt.alignment.figures import save_figure as save_file
from nmt.comparison.measures import Column, mean_and_deviation
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
Curves = Mapping[str, Sequence[Mapping[str, Sequence[tuple[int, float]]]]]


class Panel(NamedTuple):
    """A heatmap: weights with the labels of its rows and columns (none: numbers), and gold links (column, row).

    Panels of one ``quantity`` share a scale.
    """

    title: str
    weights: np.ndarray
    rows: Sequence[str]
    columns: Sequence[str]
    gold: Collection[Link] = ()
    quantity: str = ""


def save_figure(figure: Figure, path: Path) -> Path:
    """Save ``path`` with the suffixes .png, .svg and .pdf; return that of the PNG."""
    for suffix in (".svg", ".pdf", ".png"):
        save_file(figure, path.with_suffix(suffix))
    return path.with_suffix(".png")


def colours(labels: Sequence[str]) -> dict[str, Any]:
    """Return a colour for each model, the same in all figures."""
    from matplotlib import colormaps

    palette = colormaps["tab10" if len(labels) <= 10 else "tab20"].colors  # type: ignore[attr-defined]
    return {label: palette[index % len(palette)] for index, label in enumerate(labels)}


def line_styles(labels: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return colour and kind of line for each model; the kind helps readers who do not see the colours."""
    return {
        label: {"color": colour, "linestyle": line}
        for (label, colour), line in zip(colours(labels).items(), cycle(LINES), strict=False)
    }


def draw_curves(curves: Curves) -> Figure | None:
    """Draw validation loss and BLEU against updates, one line per run; None if no run has metrics."""
    metrics = [("valid_loss", "validation loss, nats per piece"), ("valid_bleu", "validation BLEU, greedy")]
    metrics = [item for item in metrics if any(run.get(item[0]) for runs in curves.values() for run in runs)]
    if not metrics:
        return None
    figure = new_figure(5.2 * len(metrics), 4)
    styles = line_styles([*curves])
    for axes, (metric, title) in zip(figure.subplots(1, len(metrics), squeeze=False)[0], metrics, strict=True):
        for label, runs in curves.items():
            style = {**styles[label], "marker": "o", "markersize": 3, "alpha": 1.0 if len(runs) == 1 else 0.6}
            for number, run in enumerate(runs):
                if points := run.get(metric):
                    name = _safe(label) if number == 0 else "_"
                    axes.plot(*zip(*((step + 1, value) for step, value in points), strict=True), label=name, **style)
        axes.set_xlabel("updates")
        axes.set_ylabel(title)
        axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize="small")
    return figure


def draw_pareto(points: Sequence[Point]) -> Figure:
    """Draw BLEU against decoding time; a line joins the points that no other point beats in both."""
    figure = new_figure(8, 4.6)
    axes = figure.add_subplot()
    labels, engines = ([*dict.fromkeys(getattr(point, name) for point in points)] for name in ("label", "engine"))
    shades, beams = colours(labels), sorted({point.beam for point in points})
    front, times = pareto_front(points), [point.milliseconds for point in points]
    axes.set_xscale("log")  # with limits, before drawing: matplotlib warns of equal times that are a power of ten
    axes.set_xlim(0.8 * min(times), 1.25 * max(times))
    axes.plot([point.milliseconds for point in front], [point.bleu for point in front], color="0.6", zorder=1)
    for point in points:
        size = 30 + 50 * beams.index(point.beam)
        axes.scatter(
            point.milliseconds,
            point.bleu,
            s=size,
            marker=MARKERS[engines.index(point.engine) % len(MARKERS)],
            color=shades[point.label],
            edgecolors="black" if point in front else "none",
            zorder=2,
        )
    _number_log_axis(axes, max(times) / min(times))
    axes.set_xlabel("milliseconds per sentence, log scale")
    axes.set_ylabel("BLEU of the timed sentences")
    axes.grid(alpha=0.3, which="both")
    _pareto_legend(axes, shades, engines, beams)
    return figure


def _number_log_axis(axes: Axes, ratio: float) -> None:
    """Number a log scale with 1, 2, 5, 10, … or, in a short range, with round steps: powers of ten would overlap."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, StrMethodFormatter

    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)) if ratio > 10 else MaxNLocator(6))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def _pareto_legend(axes: Axes, shades: Mapping[str, Any], engines: Sequence[str], beams: Sequence[int]) -> None:
    from matplotlib.lines import Line2D

    def mark(label: str, **style: Any) -> Line2D:
        return Line2D([], [], **{"linestyle": "none", "marker": "o", "color": "0.4", "label": label, **style})

    handles = [mark(_safe(label), color=shade) for label, shade in shades.items()]
    handles += [mark(engine, marker=MARKERS[number % len(MARKERS)]) for number, engine in enumerate(engines)]
    handles += [mark(f"beam {beam}", markersize=5 + 2 * number) for number, beam in enumerate(beams)]
    handles.append(mark("Pareto front", marker="", linestyle="-", color="0.6"))
    axes.legend(handles=handles, frameon=False, fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5))


def draw_lengths(
    rows: Sequence[Row], labels: Sequence[str], bleu: Sequence[Column], times: Sequence[Column], how: str
) -> Figure:
    """Draw BLEU and milliseconds per sentence for each bucket of source lengths. ``how`` names engine and beam size."""
    figure = new_figure(10.4, 4)
    styles = line_styles([row.label for row in rows])
    panels = ((bleu, "BLEU"), (times, f"milliseconds per sentence, {how}"))
    for axes, (columns, title) in zip(figure.subplots(1, 2), panels, strict=True):
        for row in rows:
            values = [mean_and_deviation(row.values.get(column.key, [])) for column in columns]
            # One run has no deviation. matplotlib draws no bar of length nan.
            shown = [
                (place, mean, math.nan if deviation is None else deviation)
                for place, (mean, deviation) in enumerate(values)
                if mean is not None
            ]
            if shown:
                style = {**styles[row.label], "marker": "o", "capsize": 2}
                axes.errorbar(*zip(*shown, strict=True), label=_safe(row.label), **style)
        axes.set_xticks(range(len(labels)), labels)
        axes.set_xlim(-0.4, len(labels) - 0.6)
        axes.set_xlabel("source length, pieces")
        axes.set_ylabel(title)
        axes.grid(alpha=0.3)
    axes.set_ylim(0, 1.05 * axes.get_ylim()[1])
    for axes in figure.axes[::-1]:  # the right panel is empty if nothing could be timed
        if axes.get_legend_handles_labels()[0]:
            axes.legend(frameon=False, fontsize="small")
            break
    return figure


def draw_heatmaps(panels: Sequence[Panel], *, columns: int = 3) -> Figure:
    """Draw heatmaps beside each other, at most ``columns`` in a line.

    Panels of weights between 0 and 1 have one scale, and all others of one quantity another. One scale has one bar.
    """
    count = min(columns, len(panels))
    lines = -(-len(panels) // count)
    figure = new_figure(4.6 * count, 2.2 * lines)
    grid = figure.subplots(lines, count, squeeze=False).flat
    used = list(zip(grid, panels, strict=False))
    by_quantity = {panel.quantity: [other for other in panels if other.quantity == panel.quantity] for panel in panels}
    scales_by_quantity = {key: iter(scales_of([p.weights for p in group])) for key, group in by_quantity.items()}
    scales = [next(scales_by_quantity[panel.quantity]) for panel in panels]
    with fonts_for(text for panel in panels for text in (panel.title, *panel.rows, *panel.columns)):
        images = [
            draw_weights(axes, panel.weights, scale, gold=panel.gold, title=panel.title, size=FONT_SIZE)
            for (axes, panel), scale in zip(used, scales, strict=True)
        ]
        sizes = [_label_panel(axes, panel, CELL) for axes, panel in used]
        width, height = (max(side) / POINTS + 1.2 for side in zip(*sizes, strict=True))
        figure.set_size_inches(
            max(4.6, width) * count, max(2.2, height) * lines
        )  # the layout needs room for the labels
        if len({*scales}) == 1:
            draw_bar(figure, images[0], scales[0], ax=[axes for axes, _ in used], shrink=0.8, aspect=30)
        else:
            for (axes, _), image, scale in zip(used, images, scales, strict=True):
                draw_bar(figure, image, scale, ax=axes)
        for axes in grid[len(panels) :]:
            axes.set_axis_off()
        figure.draw_without_rendering()  # decides how large the cells are
        for axes, panel in used:
            _label_panel(axes, panel)
    return figure


def _label_panel(axes: Axes, panel: Panel, pitch: float | None = None) -> list[float]:
    """Label cells of ``pitch`` points, or of their present size. Return the size of cells and labels in points."""
    box, points = axes.get_window_extent(), POINTS / axes.figure.dpi
    rows, columns = panel.weights.shape
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
