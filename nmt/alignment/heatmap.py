"""Heatmaps of alignments, as PNG, SVG, PDF or HTML files."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nmt.alignment.figures import (
    OUTLINE,
    POINTS,
    UNIT,
    draw_bar,
    draw_weights,
    fonts_for,
    label_cells,
    mix_slots,
    new_figure,
    save_figure,
    scale_of,
    slot_colours,
)
from nmt.alignment.page import Example, alignment_page, alignment_table
from nmt.data.links import Link
from nmt.errors import UserError, counted
from nmt.files.atomic import write_lines

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg", ".pdf")
MAX_LABELS = 250  # a side with more tokens has no room for labels; matplotlib numbers its tokens from 0, as links do
CELL = 0.32  # inches
MAX_SIDE = 32.0  # inches, for all cells of a side
LINE_LENGTH = 70  # characters of a title


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

    The suffix of ``path`` selects PNG, SVG or PDF. Colours go from 0 to 1 (see ``scale_of``); ``signed`` weights have
    a scale with 0 in its middle. ``gold`` links (source, target) are outlined. A side of more than ``MAX_LABELS``
    tokens is numbered, and one of more than ``MAX_CELLS`` is compressed. Equal
    arguments give equal files. Raises UserError for any other suffix, for an empty side, for links outside the pair, or
    if the file cannot be written. Warns of characters that no installed font has.
    """
    if path.suffix not in FORMATS:
        raise UserError(f"{path}: unsupported format; use .png, .svg or .pdf")
    if matrix.shape != (len(target), len(source)):
        raise ValueError(f"weights {matrix.shape} for {len(target)} target and {len(source)} source tokens")
    for i, j in gold or ():
        if not (0 <= i < len(source) and 0 <= j < len(target)):
            raise UserError(
                f"links: {i}-{j} points outside the sentences of {len(source):,} and {counted(len(target), 'word')};"
                " count words from 0, source first"
            )
    if not matrix.size:
        raise UserError(f"{path}: the source or the translation is empty; draw pairs with at least one word a side")
    figure = draw_heatmap(matrix, source, target, title=title, signed=signed, gold=gold or ())
    save_figure(figure, path, bbox_inches="tight")  # room for long labels


def draw_heatmap(
    matrix: np.ndarray,
    source: Sequence[str],
    target: Sequence[str],
    *,
    title: str = "",
    signed: bool = False,
    gold: Collection[Link] = (),
) -> Figure:
    """Return the figure of ``save_heatmap``. Cells have a fixed size, and the labels lie outside the figure's edge."""
    scale = scale_of(matrix, signed=signed)
    with _labelled(source, target, title) as (figure, axes, title):
        image = draw_weights(axes, matrix, scale, gold=gold, title=title)
    width, height = figure.get_size_inches().tolist()
    if gold:
        from matplotlib.patches import Patch

        example = Patch(label="gold link", **OUTLINE)
        axes.legend(handles=[example], loc="upper left", bbox_to_anchor=(0, 0), frameon=False)  # below the picture
    bar_height = max(1.2, min(3.0, height)) / height
    bar = figure.add_axes((1 + 0.2 / width, 1 - bar_height, 0.14 / width, bar_height))
    draw_bar(figure, image, scale, cax=bar)
    return figure


@contextmanager
def _labelled(source: Sequence[str], target: Sequence[str], title: str) -> Iterator[tuple[Figure, Axes, str]]:
    """Yield a figure, its axes and the title, broken into lines; then label the axes.

    A cell for each pair of tokens fills the figure, up to ``MAX_SIDE``.
    The fonts are chosen first: titles and ticks keep those that are set when their axes are made.
    """
    title = "\n".join(textwrap.fill(line, LINE_LENGTH) for line in title.split("\n"))
    width, height = (max(CELL, min(MAX_SIDE, CELL * len(side))) for side in (source, target))
    with fonts_for([title, *source[: MAX_LABELS + 1], *target[: MAX_LABELS + 1]]):
        figure = new_figure(width, height, layout=None)
        axes = figure.add_axes((0, 0, 1, 1))
        yield figure, axes, title
        if len(source) <= MAX_LABELS:
            label_cells(axes, "x", source, pitch=POINTS * width / len(source))
        if len(target) <= MAX_LABELS:
            label_cells(axes, "y", target, pitch=POINTS * height / len(target))
    axes.xaxis.set_label_position("top")
    axes.set_xlabel("source")
    axes.set_ylabel("target")


def save_slots(
    write: np.ndarray, read: np.ndarray, source: Sequence[str], target: Sequence[str], path: Path, *, title: str = ""
) -> None:
    """Draw which slot of a memory each cell of the alignment comes from; see ``mix_slots``.

    The files are those of ``save_heatmap``.
    """
    colours, largest = mix_slots(write, read)
    with _labelled(source, target, title) as (figure, axes, title):
        draw_weights(axes, colours, UNIT, title=title)
    height = figure.get_size_inches()[1]
    legend = figure.add_axes((0, -0.45 / height, 1, 0.16 / height))
    legend.imshow(
        slot_colours(len(write))[None], aspect="auto", interpolation="nearest", extent=(0.5, len(write) + 0.5, 0, 1)
    )
    legend.set_yticks([])
    legend.set_xticks(sorted({1, len(write)}))
    legend.set_xlabel(f"slot; full colour: weight {largest:.2f}")
    save_figure(figure, path, bbox_inches="tight")


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
        settings: Any = {"signed": self.signed, "gold": self.gold}
        save_heatmap(self.weights, self.source, self.target, path, title=shown, **settings)
        return path

    def __repr__(self) -> str:
        return f"Heatmap({self.title!r}, {len(self.target)} × {len(self.source)})"

    def _repr_html_(self) -> str:
        return alignment_table(self._example(), signed=self.signed)

    def _example(self) -> Example:
        return Example(number=1, weights=self.weights, source=self.source, target=self.target, gold=self.gold)
