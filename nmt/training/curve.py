"""Plot the learning curve of a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nmt.files.atomic import replace_file
from nmt.training.metrics import COLUMNS, read_rows

MIN_SPAN = 2.0  # BLEU: a smaller range would draw noise as if it were progress


def save_curve(metrics: Path, picture: Path, *, title: str) -> None:
    """Plot losses (nats per piece) and validation BLEU against updates, from the CSV file ``metrics``."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns = read_metrics(metrics)
    figure = Figure(figsize=(7, 4), layout="constrained")
    FigureCanvasAgg(figure)
    losses = figure.add_subplot()
    for name, style in (("train_loss", {"alpha": 0.4}), ("valid_loss", {"marker": "o"})):
        if points := columns.get(name):
            losses.plot(*zip(*points, strict=True), label=name.replace("_", " "), **style)
    losses.set_xlabel("updates")
    losses.set_ylabel("loss (nats per piece)")
    losses.set_ylim(0, 1.05 * losses.get_ylim()[1])
    losses.set_title(title, parse_math=False)  # the name of a run may contain $
    losses.grid(alpha=0.3)
    if points := columns.get("valid_bleu"):
        scores = losses.twinx()
        scores.plot(*zip(*points, strict=True), color="tab:green", marker="s", label="valid BLEU (greedy)")
        scores.set_ylim(*score_limits([value for _, value in points]))
        scores.set_ylabel("BLEU")
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    with replace_file(picture) as file:
        figure.savefig(file, dpi=120, format="png")


def score_limits(scores: Sequence[float]) -> tuple[float, float]:
    """Return the ends of an axis for these scores in percent: their range and a margin, within [0, 100]."""
    low, high = min(scores), max(scores)
    missing = max(0.0, MIN_SPAN - (high - low))
    low, high = low - missing / 2, high + missing / 2
    shift = max(0.0, -low) - max(0.0, high - 100)
    margin = 0.05 * (high - low)
    return max(0.0, low + shift - margin), min(100.0, high + shift + margin)


def read_metrics(path: Path) -> dict[str, list[tuple[int, float]]]:
    """Return the (update, value) points of each metric in a metrics file, without damaged rows."""
    columns: dict[str, list[tuple[int, float]]] = {}
    for row in read_rows(path)[0]:
        for name, value in zip(COLUMNS, row, strict=True):
            if value and name not in ("step", "epoch"):
                columns.setdefault(name, []).append((int(row[0]), float(value)))
    return columns
