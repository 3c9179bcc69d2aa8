"""Heatmaps of alignments, as PNG, SVG, PDF or HTML files."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from nmt.alignment.figures import (
    POINTS,
    STEPS,
    UNIT,
    Scale,
    fonts_for,
    new_figure,
    save_figure,
    scale_of,
    short_label,
    xml_safe,
)
from nmt.alignment.page import Example, alignment_page, alignment_table
from nmt.data.links import Link
from nmt.errors import UserError
from nmt.files.atomic import write_lines

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_LABELS = 250  # a side with more tokens has no room for labels; matplotlib numbers its tokens from 0, as links do
CELL = 0.32  # inches
MAX_SIDE = 32.0  # inches, for all cells of a side
FONT_SIZE = 10.0  # points
LINE_LENGTH = 70  # characters of a title
OUTLINE: dict[str, Any] = {"fill": False, "edgecolor": "tab:orange", "linewidth": 1.5}


def draw_heatmap(
    matrix: np.ndarray,
    source: Sequence[str],
    target: Sequence[str],
    equal: np.ndarray | None = None,
    *,
    title: str = "",
    signed: bool = False,
    gold: Collection[Link] | None = None,
) -> Figure:
    """Draw ``matrix`` (T, S) with ``source`` tokens across and ``target`` tokens down.

    Colours go from 0 to 1 (see ``scale_of``); ``signed`` weights have a scale with 0 in its middle. ``equal`` (S) is
    drawn below, as what equal weights would give. ``gold`` links (source, target) are outlined. A side of more than
    ``MAX_LABELS`` tokens is numbered. Cells have a fixed size, and the labels lie outside the figure's edge. Warns of
    characters that no installed font has.
    """
    from matplotlib.patches import Rectangle

    scale = scale_of(matrix, signed=signed)
    figure = _draw_cells(matrix, source, target, title, scale)
    (axes,) = figure.axes
    for i, j in gold or ():
        axes.add_patch(Rectangle((i - 0.5, j - 0.5), 1, 1, label="gold link", **OUTLINE))
    width, height = figure.get_size_inches().tolist()
    below = 0.0
    if equal is not None:
        below = -0.3 / height
        strip = figure.add_axes((0, below, 1, 0.16 / height))
        image = strip.imshow(equal[None], aspect="auto", interpolation="nearest", cmap=axes.images[0].cmap)
        image.set_clim(scale.low, scale.limit)
        strip.set_xticks([])
        strip.set_yticks([0], ["equal weights"], fontsize=FONT_SIZE)
        strip.tick_params(length=0)
    if gold:
        axes.legend(handles=axes.patches[:1], loc="upper left", bbox_to_anchor=(0, below), frameon=False)
    bar_height = max(1.2, min(3.0, height)) / height
    place = figure.add_axes((1 + 0.2 / width, 1 - bar_height, 0.14 / width, bar_height))
    bar = figure.colorbar(axes.images[0], cax=place, ticks=scale.ticks(), format=lambda value, _: f"{value:.3g}")
    bar.set_label("attention weight")
    return figure


def draw_slots(
    write: np.ndarray, read: np.ndarray, source: Sequence[str], target: Sequence[str], *, title: str = ""
) -> Figure:
    """Draw which slot of a memory each cell of the alignment comes from; see ``mix_slots``.

    The bar below has the colours of each slot from 0 to the largest weight. Slots that hold nothing are left out.
    """
    used = write.any(axis=1) | (not write.any())
    write, read = write[used], read[:, used]
    cells, largest = mix_slots(write, read)
    figure = _draw_cells(cells, source, target, title, UNIT)
    height = figure.get_size_inches()[1]
    bar = figure.add_axes((0, -0.75 / height, 1, 0.4 / height))
    slots = len(write)
    colours = 1 - np.linspace(1, 0, STEPS)[:, None, None] * (1 - slot_colours(slots))
    bar.imshow(colours, aspect="auto", interpolation="nearest", extent=(0.5, slots + 0.5, 0, largest))
    bar.set_yticks([0, largest], ["0", f"{largest:.2f}"])
    bar.set_xticks(sorted({1, slots}))
    bar.set_xlabel(f"slot; equal weights: {1 / len(source):.2f}")
    bar.set_ylabel("weight")
    return figure


def mix_slots(write: np.ndarray, read: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the colours (T, S, 3) of the cells of an alignment, one colour per slot, and its largest weight.

    ``write`` (R, S) is α and ``read`` (T, R) is β, none negative. Slot k contributes β_tk α_ks to the cell of target
    piece t and source piece s. A cell mixes the colours of its slots; white means 0, and the cell with the largest
    weight has full colour. The weights of a target piece are divided by their sum.
    """
    tiny = float(np.finfo(np.float32).tiny)
    read = read / np.maximum((read @ write).sum(axis=1, keepdims=True), tiny)
    largest = max(float((read @ write).max()), tiny)
    channels = [1 - read @ (write * (1 - channel)[:, None]) / largest for channel in slot_colours(len(write)).T]
    return np.stack(channels, axis=2).clip(0, 1), largest


def slot_colours(slots: int) -> np.ndarray:
    """Return one colour per slot, as RGB (R, 3): hues from red to violet, in the order of the slots."""
    from matplotlib.colors import hsv_to_rgb

    hues = np.linspace(0, 0.8, slots)
    colours: np.ndarray = hsv_to_rgb(np.stack([hues, np.full(slots, 0.9), np.full(slots, 0.75)], axis=1))
    return colours


def _draw_cells(cells: np.ndarray, source: Sequence[str], target: Sequence[str], title: str, scale: Scale) -> Figure:
    """Return a figure that is filled with coloured cells, up to ``MAX_SIDE``, with labels outside its edge.

    ``cells`` are weights (T, S), NaN in grey, or colours (T, S, 3).
    """
    from matplotlib.colors import ListedColormap

    if not cells.size:
        raise UserError("heatmap: the source or the translation is empty; draw pairs with at least one word a side")
    title = "\n".join(textwrap.fill(line, LINE_LENGTH) for line in title.split("\n"))
    width, height = (max(CELL, min(MAX_SIDE, CELL * len(side))) for side in (source, target))
    # Titles and ticks keep the fonts that are set when their axes are made.
    with fonts_for([title, *source[: MAX_LABELS + 1], *target[: MAX_LABELS + 1]]):
        figure = new_figure(width, height, layout=None)
        axes = figure.add_axes((0, 0, 1, 1))
        colours = ListedColormap(scale.table).with_extremes(bad="0.8")
        axes.imshow(cells, aspect="auto", interpolation="nearest", cmap=colours, vmin=scale.low, vmax=scale.limit)
        axes.xaxis.tick_top()
        axes.tick_params(length=0, labelsize=FONT_SIZE)
        axes.set_title(xml_safe(title), loc="left", parse_math=False, fontsize=FONT_SIZE)
        _label(axes, "x", source, POINTS * width / len(source))
        _label(axes, "y", target, POINTS * height / len(target))
    axes.xaxis.set_label_position("top")
    axes.set_xlabel("source")
    axes.set_ylabel("target")
    return figure


def _label(axes: Axes, side: Literal["x", "y"], tokens: Sequence[str], pitch: float) -> None:
    """Write a label beside each column (``x``) or row (``y``), unless there are too many. Cells are ``pitch`` points.

    The font shrinks until no label overlaps its neighbour. The labels of columns stand upright if all are narrow.
    """
    if len(tokens) > MAX_LABELS:
        return
    size = min(FONT_SIZE, 0.7 * pitch)
    axis = axes.xaxis if side == "x" else axes.yaxis
    labels = [short_label(token) for token in tokens]
    axis.set_ticks(range(len(labels)), labels, rotation=90 if side == "x" else 0, parse_math=False, fontsize=size)
    texts = axis.get_ticklabels()
    boxes = [text.get_window_extent() for text in texts]
    pixels = pitch * axes.figure.dpi / POINTS
    if side == "x" and all(box.height < 0.9 * pixels for box in boxes):
        axis.set_tick_params(rotation=0)
        return
    for text, box in zip(texts, boxes, strict=True):
        across = box.width if side == "x" else box.height  # the height of a rotated text is the width of its box
        if across > 0.95 * pixels:
            text.set_fontsize(size * 0.9 * pixels / across)  # 0.9 also covers the rounding of font sizes


@dataclass(frozen=True, kw_only=True)
class Heatmap:
    """The attention of one sentence pair, between words or pieces; Jupyter shows it as a table.

    ``weights`` (T, S) has one row per target word or piece, and one column per source word or piece. Words of scripts
    without spaces are split into pieces, unless there are ``gold`` links (source word, target word). ``signed`` weights
    can be negative.
    """

    weights: np.ndarray
    source: list[str]
    target: list[str]
    title: str
    equal: np.ndarray | None = None
    gold: frozenset[Link] | None = None
    signed: bool = False

    def save(self, path: str | Path, *, title: bool = True) -> Path:
        """Write the heatmap as a PNG, SVG, PDF or HTML file, chosen by the suffix of ``path``.

        A picture for a paper needs no ``title``.
        """
        path, shown = Path(path), self.title if title else ""
        if path.suffix.lower() == ".html":
            page = alignment_page([self._example()], title=self.title, signed=self.signed, heading=title)
            write_lines(path, page.rstrip("\n").split("\n"))
            return path
        settings: Any = {"title": shown, "signed": self.signed, "gold": self.gold}
        save_figure(draw_heatmap(self.weights, self.source, self.target, self.equal, **settings), path)
        return path

    def __repr__(self) -> str:
        return f"Heatmap({self.title!r}, {len(self.target)} × {len(self.source)})"

    def _repr_html_(self) -> str:
        return alignment_table(self._example(), signed=self.signed)

    def _example(self) -> Example:
        return Example(1, self.weights, self.source, self.target, self.equal, self.gold)
