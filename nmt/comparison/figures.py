"""Figures of the report."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle
from statistics import fmean, stdev
from typing import TYPE_CHECKING

from nmt.alignment.figures import LEGEND, finish_axes, legend_text, new_figure, styles_of
from nmt.comparison.records import Record, select
from nmt.training.metrics import NEAR_ZERO

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MARKERS = "osD^vPX"
Points = Mapping[tuple[str, str], Mapping[int, tuple[float, float]]]
"""By model and engine, and then by beam size: milliseconds per sentence, and BLEU of the timed sentences."""


def timed_points(records: Sequence[Record]) -> Points:
    """Return the mean time and the BLEU of each model, engine and beam size that was timed."""
    points: dict[tuple[str, str], dict[int, tuple[float, float]]] = {}
    for label, _, metric, bleu, engine, beam, _ in records:
        if metric == "timed_bleu" and beam is not None:
            rate = fmean(select(records, label, "sentences_per_s", engine, beam))
            points.setdefault((label, engine), {})[beam] = 1000 / rate, bleu
    return points


def pareto_front(points: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the points (time, BLEU) that no other point beats in both, from fast to slow."""
    front: list[tuple[float, float]] = []
    for time, bleu in sorted(points, key=lambda point: (point[0], -point[1])):
        if not front or bleu > front[-1][1]:
            front.append((time, bleu))
    return front


def draw_pareto(points: Points) -> Figure:
    """Draw BLEU against decoding time; a line joins the points that no other point beats in both.

    There is no line for one such point, nor for models at chance.
    """
    from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

    figure = new_figure(8, 4.6)
    axes = figure.add_subplot()
    labels, engines = ([*dict.fromkeys(part)] for part in zip(*points, strict=True))
    every = [point for by_beam in points.values() for point in by_beam.values()]
    times = [time for time, _ in every]
    axes.set_xscale("log")  # with limits, before drawing: matplotlib warns of equal times that are a power of ten
    axes.set_xlim(0.8 * min(times), 1.25 * max(times))
    styles, markers = styles_of(labels), dict(zip(engines, cycle(MARKERS), strict=False))
    for (label, engine), by_beam in points.items():
        axes.plot(*zip(*by_beam.values(), strict=True), marker=markers[engine], **styles[label])
        for beam, point in by_beam.items():
            axes.annotate(str(beam), point, (4, 4), textcoords="offset points", fontsize="small")
    for label, style in styles.items():
        axes.plot([], [], label=legend_text(label), **style)
    for engine, marker in markers.items():
        axes.plot([], [], label=engine, marker=marker, color="0.4", linestyle="none")
    front = pareto_front(every)
    if len(front) > 1 and front[-1][1] >= NEAR_ZERO:
        axes.plot(*zip(*front, strict=True), color="0.8", linewidth=6, zorder=1, label="Pareto front")
    # Powers of ten would be too few numbers for a short range, and all multiples too many for a long one.
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)) if max(times) > 10 * min(times) else MaxNLocator(6))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())
    finish_axes(axes, "milliseconds per sentence, log scale; numbers: beam size", "BLEU of the timed sentences")
    axes.legend(**LEGEND, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def draw_lengths(
    records: Sequence[Record], labels: Sequence[str], lengths: Sequence[str], engine: str, beam: int
) -> Figure:
    """Draw BLEU of the models ``labels``, and milliseconds per target piece of one search, against source lengths."""
    figure = new_figure(10.4, 4)
    panels: list[tuple[str, str, int | None, str]] = [("bleu", "", None, "BLEU")]
    panels.append(("ms_per_token", engine, beam, f"milliseconds per target piece, {engine}, beam {beam}"))
    for axes, (metric, of_engine, of_beam, title) in zip(figure.subplots(1, 2), panels, strict=True):
        for label, style in styles_of(labels).items():
            values = [select(records, label, metric, of_engine, of_beam, part) or [math.nan] for part in lengths]
            # One run has no deviation. matplotlib draws no point and no bar that is nan.
            bars = [stdev(part) if len(part) > 1 else math.nan for part in values]
            axes.errorbar(
                lengths, [*map(fmean, values)], bars, label=legend_text(label), marker="o", capsize=2, **style
            )
        finish_axes(axes, "source length, pieces", title)
    axes.set_ylim(bottom=0)
    figure.axes[0].legend(**LEGEND)
    return figure
