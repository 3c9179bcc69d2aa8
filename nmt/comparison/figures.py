"""Figures of the report, each as PNG, SVG and PDF."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any, NamedTuple

from nmt.alignment.figures import new_figure, save_figure, xml_safe
from nmt.comparison.records import Record, select

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MARKERS = "osD^vPX"
LINES = ("-", "--", "-.", ":")
LEGEND: dict[str, Any] = {"frameon": False, "fontsize": "small"}
Curves = Mapping[str, Sequence[Mapping[str, Sequence[tuple[int, float]]]]]
"""By label: the metrics of each run, by update."""


class Point(NamedTuple):
    """A model with an engine and a beam size: milliseconds per sentence and BLEU on the timed sentences."""

    label: str
    engine: str
    beam: int
    milliseconds: float
    bleu: float


def timed_points(records: Sequence[Record]) -> list[Point]:
    """Return the mean time and the BLEU of each model, engine and beam size that was timed."""
    searches = dict.fromkeys((r.model, r.engine, r.beam) for r in records if r.metric == "sentences_per_s")
    points = []
    for label, engine, beam in searches:
        assert beam is not None
        rate, bleu = (
            fmean(select(records, label, metric, engine=engine, beam=beam))
            for metric in ("sentences_per_s", "timed_bleu")
        )
        points.append(Point(label=label, engine=engine, beam=beam, milliseconds=1000 / rate, bleu=bleu))
    return points


def pareto_front(points: Sequence[Point]) -> list[Point]:
    """Return the points that no other point beats in both time and BLEU, from fast to slow."""
    front: list[Point] = []
    for point in sorted(points, key=lambda point: (point.milliseconds, -point.bleu)):
        if not front or point.bleu > front[-1].bleu:
            front.append(point)
    return front


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
    records: Sequence[Record], labels: Sequence[str], lengths: Sequence[str], engine: str, beam: int
) -> Figure:
    """Draw BLEU of the models ``labels``, and milliseconds per sentence of one search, against source lengths."""
    figure = new_figure(10.4, 4)
    styles = styles_of(labels)
    timing: dict[str, Any] = {"engine": engine, "beam": beam}
    panels = [("bleu", {}, "BLEU"), ("ms", timing, f"milliseconds per sentence, {engine}, beam {beam}")]
    for axes, (metric, search, title) in zip(figure.subplots(1, 2), panels, strict=True):
        for label in labels:
            values = [select(records, label, metric, lengths=part, **search) for part in lengths]
            if shown := [(position, numbers) for position, numbers in enumerate(values) if numbers]:
                positions, numbers = zip(*shown, strict=True)
                # One run has no deviation. matplotlib draws no bar of length nan.
                bars = [stdev(part) if len(part) > 1 else math.nan for part in numbers]
                style = {**styles[label], "marker": "o", "capsize": 2}
                axes.errorbar(positions, [*map(fmean, numbers)], bars, label=_safe(label), **style)
        axes.set_xticks(range(len(lengths)), lengths)
        axes.set_xlim(-0.4, len(lengths) - 0.6)
        _finish(axes, "source length, pieces", title)
    axes.set_ylim(0, 1.05 * axes.get_ylim()[1])
    figure.axes[0].legend(**LEGEND)
    return figure


def _finish(axes: Axes, x: str, y: str) -> None:
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.grid(alpha=0.3, which="both")


def _safe(text: str) -> str:
    """Return the text of a legend: matplotlib reads text between two ``$`` as a formula, and hides ``_text``."""
    shown = xml_safe(text).replace("$", r"\$")
    return f" {shown}" if shown.startswith("_") else shown
