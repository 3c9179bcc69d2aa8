"""Heatmaps of alignments, as PNG or SVG files."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nmt.alignment.characters import xml_safe
from nmt.alignment.fonts import font_families
from nmt.errors import UserError
from nmt.files.atomic import replace_file
from nmt.text.links import Link

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

MAX_LABELS = 120  # a side with more tokens has no room for labels; matplotlib numbers it from 0, as links are
MAX_LABEL_LENGTH = 40  # characters


def save_heatmap(
    matrix: np.ndarray,
    source: Sequence[str],
    target: Sequence[str],
    path: Path,
    *,
    title: str = "",
    signed: bool = False,
    gold: Collection[Link] | None = None,
) -> None:
    """Draw ``matrix`` (T, S) with ``source`` tokens across and ``target`` tokens down.

    The suffix of ``path`` selects PNG or SVG. Colours go from 0 to the largest weight; ``signed`` uses a diverging
    colour map centred on 0. ``gold`` links (source, target) are outlined. A side of more than ``MAX_LABELS`` tokens
    is numbered. Raises UserError for any other suffix, or if the file cannot be written. Warns of characters that no
    installed font has.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    if path.suffix not in (".png", ".svg"):
        raise UserError(f"{path}: unsupported format; use .png or .svg")
    width = min(40.0, 2.5 + 0.32 * len(source))
    height = min(40.0, 2.0 + 0.32 * len(target))
    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    image = draw_weights(axes, matrix, signed=signed)
    _label_axes(axes, _labels(source), _labels(target), xml_safe(title))
    _outline(axes, gold or ())
    figure.colorbar(image, ax=axes, shrink=0.6, label="attention weight")
    with warnings.catch_warnings(), replace_file(path) as file:
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # the picture shows a box instead
        figure.savefig(file, dpi=120, format=path.suffix[1:], bbox_inches="tight")  # room for long labels


def draw_weights(axes: Axes, weights: np.ndarray, *, signed: bool) -> AxesImage:
    """Draw each weight as a coloured cell. ``signed`` uses a diverging colour map centred on 0."""
    limit = float(np.abs(weights).max(initial=0)) or 1.0
    return axes.imshow(
        weights,
        aspect="auto",
        interpolation="nearest",
        cmap="RdBu_r" if signed else "Blues",
        vmin=-limit if signed else 0,
        vmax=limit,
    )


def _label_axes(axes: Axes, source: list[str], target: list[str], title: str) -> None:
    style: dict[str, Any] = {"parse_math": False, "fontfamily": font_families([*source, *target, title])}
    if len(source) <= MAX_LABELS:
        axes.set_xticks(range(len(source)), source, rotation=60, ha="left", rotation_mode="anchor", **style)
    if len(target) <= MAX_LABELS:
        axes.set_yticks(range(len(target)), target, **style)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.xaxis.set_label_position("top")
    axes.set_xlabel("source")
    axes.set_ylabel("target")
    axes.set_title(title, fontsize="medium", loc="left", **style)


def _outline(axes: Axes, gold: Collection[Link]) -> None:
    from matplotlib.patches import Rectangle

    style: dict[str, Any] = {"fill": False, "edgecolor": "tab:orange", "linewidth": 1.5}
    for i, j in gold:
        axes.add_patch(Rectangle((i - 0.5, j - 0.5), 1, 1, **style))
    if gold:
        example = Rectangle((0, 0), 1, 1, label="gold link", **style)
        axes.legend(handles=[example], loc="upper left", bbox_to_anchor=(0, 0), frameon=False)  # below the picture


def _labels(tokens: Sequence[str]) -> list[str]:
    return [
        xml_safe(token if len(token) <= MAX_LABEL_LENGTH else token[: MAX_LABEL_LENGTH - 1] + "…") for token in tokens
    ]
