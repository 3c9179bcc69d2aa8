"""Heatmaps of alignments, as PNG, SVG or PDF files."""

from __future__ import annotations

import textwrap
import warnings
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from nmt.alignment.characters import short_label, xml_safe
from nmt.alignment.colours import Scale, scale_of
from nmt.alignment.fonts import font_families
from nmt.alignment.page import Example, alignment_page, alignment_table
from nmt.data.links import Link
from nmt.errors import UserError, counted
from nmt.files.atomic import replace_file, write_lines

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage
    from matplotlib.text import Text

FORMATS = (".png", ".svg", ".pdf")
MAX_LABELS = 250  # a side with more tokens has no room for labels; matplotlib numbers it from 0, as links are
CELL = 0.32  # inches
MAX_SIDE = 32.0  # inches, for all cells of a side
MAX_CELLS = 1920  # for a side: 2 pixels in 32 inches. A longer side shows the strongest of neighbouring weights
FONT_SIZE = 10.0  # points
POINTS = 72  # per inch
DPI = 120
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
    user_named: bool = False,
) -> None:
    """Draw ``matrix`` (T, S) with ``source`` tokens across and ``target`` tokens down.

    The suffix of ``path`` selects PNG, SVG or PDF. Colours go from 0 to 1 (see ``scale_of``); ``signed`` weights have
    a scale with 0 in its middle. ``gold`` links (source, target) are outlined. A side of more than ``MAX_LABELS``
    tokens is numbered, and one of more than ``MAX_CELLS`` is compressed. ``user_named``: see ``replace_file``. Equal
    arguments give equal files. Raises UserError for any other suffix, for an empty side, for links outside the pair, or
    if the file cannot be written. Warns of characters that no installed font has.
    """
    import matplotlib

    if path.suffix not in FORMATS:
        raise UserError(f"{path}: unsupported format; use .png, .svg or .pdf")
    check_pair(matrix, source, target, gold or ())
    if not matrix.size:
        raise UserError(f"{path}: the source or the translation is empty; draw pairs with at least one word a side")
    figure = draw_heatmap(matrix, source, target, title=title, signed=signed, gold=gold)
    form, date = path.suffix[1:], "CreationDate" if path.suffix == ".pdf" else "Date"
    metadata = {} if form == "png" else {date: None}
    # Fonts that are embedded as they are (42) keep the text of a PDF searchable.
    settings: dict[Any, Any] = {"svg.hashsalt": path.name, "pdf.fonttype": 42}
    with warnings.catch_warnings(), matplotlib.rc_context(settings), replace_file(path, user_named=user_named) as file:
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # the picture shows a box instead
        figure.savefig(file, dpi=DPI, format=form, bbox_inches="tight", metadata=metadata)  # room for long labels


def check_pair(matrix: np.ndarray, source: Sequence[str], target: Sequence[str], gold: Collection[Link]) -> None:
    """Raise ValueError unless there is a label for each row and column, and UserError for links outside the pair."""
    if matrix.shape != (len(target), len(source)):
        raise ValueError(f"weights {matrix.shape} for {len(target)} target and {len(source)} source tokens")
    for i, j in gold:
        if not (0 <= i < len(source) and 0 <= j < len(target)):
            raise UserError(
                f"links: {i}-{j} points outside the sentences of {len(source):,} and {counted(len(target), 'word')};"
                " count words from 0, source first"
            )


def draw_heatmap(
    matrix: np.ndarray,
    source: Sequence[str],
    target: Sequence[str],
    *,
    title: str = "",
    signed: bool = False,
    gold: Collection[Link] | None = None,
) -> Figure:
    """Return the figure of ``save_heatmap``. Cells have a fixed size, and the labels lie outside the figure's edge."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    width, height = (max(CELL, min(MAX_SIDE, CELL * len(side))) for side in (source, target))
    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1))
    scale = scale_of(matrix, signed=signed)
    image = draw_weights(axes, matrix, scale)
    labels = [short_label(token) for token in source], [short_label(token) for token in target]
    title = "\n".join(textwrap.fill(line, LINE_LENGTH) for line in xml_safe(title).split("\n"))
    _label_axes(axes, *labels, title)
    _outline(axes, gold or ())
    bar_height = max(1.2, min(3.0, height)) / height
    bar = figure.add_axes((1 + 0.2 / width, 1 - bar_height, 0.14 / width, bar_height))
    draw_bar(figure, image, scale, cax=bar)
    return figure


def draw_weights(axes: Axes, weights: np.ndarray, scale: Scale) -> AxesImage:
    """Draw each weight as a coloured cell. Cells of NaN are grey."""
    from matplotlib.colors import ListedColormap

    colours = ListedColormap(scale.table).with_extremes(bad="0.8")
    rows, columns = weights.shape
    return axes.imshow(
        strongest(weights),
        aspect="auto",
        interpolation="nearest",
        interpolation_stage="rgba",  # twice as fast: the colours of the weights, not of the pixels
        cmap=colours,
        vmin=scale.low,
        vmax=scale.limit,
        extent=(-0.5, columns - 0.5, rows - 0.5, -0.5),
    )


def draw_bar(figure: Figure, image: AxesImage, scale: Scale, **place: Any) -> None:
    """Draw the colour bar of a picture, with numbers at both ends."""
    ticks = [float(tick) for tick in np.linspace(scale.low, scale.limit, 5)]
    bar = figure.colorbar(image, ticks=ticks, format=lambda value, _: f"{value:.3g}", **place)
    bar.set_label("attention weight")


def strongest(weights: np.ndarray, limit: int = MAX_CELLS) -> np.ndarray:
    """Return the weights with at most ``limit`` rows and columns.

    Each cell is the weight with the largest absolute value of a block. Left to matplotlib, a picture with fewer pixels
    than cells would lack most of them.
    """
    for axis, size in enumerate(weights.shape):
        if size > limit:
            blocks = np.array_split(weights, limit, axis=axis)
            largest = [np.expand_dims(np.abs(block).argmax(axis=axis), axis) for block in blocks]
            taken = [np.take_along_axis(*pair, axis=axis) for pair in zip(blocks, largest, strict=True)]
            weights = np.concatenate(taken, axis=axis)
    return weights


def label_cells(
    axes: Axes, side: Literal["x", "y"], labels: Sequence[str], *, pitch: float, size: float = FONT_SIZE
) -> float:
    """Write a label beside each column (``x``) or row (``y``). Cells are ``pitch`` points wide.

    The font shrinks until no label overlaps its neighbour. The labels of columns stand upright if all are narrow.
    Return how far the labels reach from the cells, in points.
    """
    size = min(size, 0.7 * pitch)
    style: dict[str, Any] = {"parse_math": False, "fontfamily": font_families(labels), "fontsize": size}
    set_ticks = axes.set_xticks if side == "x" else axes.set_yticks
    set_ticks(range(len(labels)), labels, rotation=90 if side == "x" else 0, **style)
    texts = (axes.get_xticklabels if side == "x" else axes.get_yticklabels)()
    extents = [_extent(text) for text in texts]
    if side == "x" and all(length < 0.9 * pitch for _, length in extents):
        for text in texts:
            text.set_rotation(0)
        return max(width for width, _ in extents)
    for text, (width, height) in zip(texts, extents, strict=True):
        across = width if side == "x" else height  # the height of a rotated text is the width of its box
        if across > 0.95 * pitch:
            text.set_fontsize(size * 0.9 * pitch / across)  # 0.9 also covers the rounding of font sizes
    return max(height if side == "x" else width for width, height in extents)


def _extent(text: Text) -> tuple[float, float]:
    """Return width and height of a drawn text in points, where characters that no font has are boxes."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        box = text.get_window_extent()
    figure = text.get_figure(root=True)
    assert figure is not None
    return box.width * POINTS / figure.dpi, box.height * POINTS / figure.dpi


def _label_axes(axes: Axes, source: list[str], target: list[str], title: str) -> None:
    figure = axes.get_figure(root=True)
    assert figure is not None
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    width, height = figure.get_size_inches()
    if len(source) <= MAX_LABELS:
        label_cells(axes, "x", source, pitch=POINTS * width / len(source))
    if len(target) <= MAX_LABELS:
        label_cells(axes, "y", target, pitch=POINTS * height / len(target))
    axes.xaxis.set_label_position("top")
    axes.set_xlabel("source")
    axes.set_ylabel("target")
    axes.set_title(title, fontsize="medium", loc="left", parse_math=False, fontfamily=font_families([title]))


def _outline(axes: Axes, gold: Collection[Link]) -> None:
    from matplotlib.patches import Rectangle

    style: dict[str, Any] = {"fill": False, "edgecolor": "tab:orange", "linewidth": 1.5}
    for i, j in gold:
        axes.add_patch(Rectangle((i - 0.5, j - 0.5), 1, 1, **style))
    if gold:
        example = Rectangle((0, 0), 1, 1, label="gold link", **style)
        axes.legend(handles=[example], loc="upper left", bbox_to_anchor=(0, 0), frameon=False)  # below the picture


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
            write_lines(path, page.rstrip("\n").split("\n"), user_named=True)
            return path
        settings: Any = {"signed": self.signed, "gold": self.gold, "user_named": True}
        save_heatmap(self.weights, self.source, self.target, path, title=shown, **settings)
        return path

    def __repr__(self) -> str:
        return f"Heatmap({self.title!r}, {len(self.target)} × {len(self.source)})"

    def _repr_html_(self) -> str:
        return alignment_table(self._example(), signed=self.signed)

    def _example(self) -> Example:
        return Example(1, self.weights, self.source, self.target, self.gold)
