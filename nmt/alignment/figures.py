"""The parts of all figures: colours of weights, readable labels, fonts, cells of weights, colour bars, files."""

from __future__ import annotations

import re
import unicodedata
import warnings
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from nmt.data.links import Link
from nmt.files.atomic import replace_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage
    from matplotlib.text import Text

STEPS = 256  # colours per sign
# ColorBrewer's Blues, and the red half of its RdBu behind the same white, from 0 to the limit of the scale.
BLUES = ("f7fbff", "deebf7", "c6dbef", "9ecae1", "6baed6", "4292c6", "2171b5", "08519c", "08306b")
REDS = (BLUES[0], "fddbc7", "f4a582", "d6604d", "b2182b", "67001f")
ROUNDING = 1e-3  # shares that were added in single precision, or in bfloat16, can exceed 1 by this much


@dataclass(frozen=True)
class Scale:
    """Colours for weights from 0 to ``limit``: white to blue. A ``signed`` scale starts at −``limit``, in red."""

    limit: float = 1.0
    signed: bool = False

    @property
    def low(self) -> float:
        return -self.limit if self.signed else 0.0

    @cached_property
    def table(self) -> np.ndarray:
        """Colours (N, 3) in [0, 1] of equal steps from ``low`` to ``limit``."""
        blues = _ramp(BLUES)
        return np.concatenate([_ramp(REDS)[::-1], blues]) if self.signed else blues

    @cached_property
    def _pairs(self) -> list[tuple[str, str]]:
        """The colours of the table as ``#rrggbb``, each with the colour of text that has a contrast of at least 4.5."""
        linear = np.where(self.table <= 0.04045, self.table / 12.92, ((self.table + 0.055) / 1.055) ** 2.4)
        light = linear @ (0.2126, 0.7152, 0.0722) > 0.18
        codes = [f"#{r:02x}{g:02x}{b:02x}" for r, g, b in np.round(255 * self.table).astype(int)]
        return [(code, "#000" if bright else "#fff") for code, bright in zip(codes, light, strict=True)]

    def colour(self, weight: float) -> tuple[str, str]:
        """Return the colour of a weight as ``#rrggbb``, and that of text on it.

        Weights beyond the scale get the colour of its end.
        """
        size = len(self._pairs)
        index = int(size * (weight - self.low) / (self.limit - self.low))  # as matplotlib chooses a colour
        return self._pairs[min(max(index, 0), size - 1)]

    def ticks(self) -> list[float]:
        """Return five weights at equal distances, from ``low`` to ``limit``."""
        ticks: list[float] = np.linspace(self.low, self.limit, 5).tolist()
        return ticks


UNIT = Scale()


def scale_of(*weights: np.ndarray, signed: bool = False) -> Scale:
    """Return the scale for matrices that are drawn beside each other: 0 to 1 for shares of the source.

    If a weight is larger, the scale ends at the largest. A ``signed`` scale ends at the largest absolute weight. NaN
    and infinite weights are ignored.
    """
    finite = [np.abs(matrix[np.isfinite(matrix)]).max(initial=0) for matrix in weights]
    largest = float(max(finite, default=0))
    if not signed and largest <= 1 + ROUNDING:
        return UNIT
    return Scale(largest or 1.0, signed)


def _ramp(colours: tuple[str, ...]) -> np.ndarray:
    """Return ``STEPS`` colours (STEPS, 3) between these."""
    anchors = np.array([[int(colour[k : k + 2], 16) / 255 for k in (0, 2, 4)] for colour in colours])
    places = np.linspace(0, 1, len(anchors))
    return np.stack([np.interp(np.linspace(0, 1, STEPS), places, channel) for channel in anchors.T], axis=1)


POINTS = 72  # per inch
DPI = 120
FONT_SIZE = 10.0  # points
DEFAULT_FONT = "DejaVu Sans"  # comes with matplotlib; lacks many scripts
MAX_LABEL_LENGTH = 40  # characters
MAX_CELLS = 1920  # for a side: 2 pixels in 32 inches. A longer side shows the strongest of neighbouring weights
OUTLINE: dict[str, Any] = {"fill": False, "edgecolor": "tab:orange", "linewidth": 1.5}
# https://www.w3.org/TR/xml/#NT-Char: SVG cannot hold these characters, not even escaped.
FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# Line breaks, tabs and other control characters, and the marks that change the direction of the text around them.
LAYOUT = re.compile("[\t\n\r\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Cn", "Zs", "Zl", "Zp"})  # Unicode categories


def xml_safe(text: str) -> str:
    """Return the text with U+FFFD for each character that XML forbids.

    These are most control characters, lone surrogates, U+FFFE and U+FFFF.
    """
    return FORBIDDEN.sub("\ufffd", text)


def is_visible(character: str) -> bool:
    """Return whether a font draws something for the character."""
    variation_selector = "\ufe00" <= character <= "\ufe0f"
    return unicodedata.category(character) not in INVISIBLE and not variation_selector


def short_label(token: str) -> str:
    """Return a token as one short readable line.

    A token of invisible characters is written as their numbers, such as ``U+200B``. Characters that break lines or turn
    the direction of text are U+FFFD.
    """
    head = token[: MAX_LABEL_LENGTH + 1]  # a token can have millions of characters
    if any(is_visible(character) or character == "\ufffd" for character in head):
        text = LAYOUT.sub("\ufffd", xml_safe(head))
    else:
        text = " ".join(f"U+{ord(character):04X}" for character in head)
    return text if len(text) <= MAX_LABEL_LENGTH else text[: MAX_LABEL_LENGTH - 1] + "…"


@contextmanager
def fonts_for(texts: Iterable[str]) -> Iterator[None]:
    """Draw text in the default font, and each character that it lacks in an installed font that has it.

    Characters that no font has are drawn as boxes, and a warning names them.
    """
    import matplotlib
    from matplotlib.font_manager import findfont

    families = [DEFAULT_FONT]
    missing = _missing({*filter(is_visible, "".join(texts))}, findfont(DEFAULT_FONT))
    for family, path in _installed().items() if missing else ():
        rest = _missing(missing, path)
        if len(rest) < len(missing):
            families.append(family)
        missing = rest
    if missing:
        warnings.warn(
            f"no installed font has {' '.join(sorted(missing)):.60}: the picture shows boxes; install fonts that have "
            "them, such as fonts-noto-core, fonts-noto-cjk or fonts-symbola of Debian",
            stacklevel=3,
        )
    with warnings.catch_warnings(), matplotlib.rc_context({"font.family": families}):
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        yield


def _missing(characters: set[str], font: str) -> set[str]:
    from matplotlib.font_manager import get_font

    return {character for character in characters if not get_font(font).get_char_index(ord(character))}


@cache
def _installed() -> dict[str, str]:
    """Return a file of each installed family, sans serif first."""
    from matplotlib.font_manager import findSystemFonts, fontManager

    paths = {*findSystemFonts()}
    for path in sorted(paths - {entry.fname for entry in fontManager.ttflist}):
        # matplotlib's list can be older than the font, or lack it: bitmaps, such as colour emoji, and damaged fonts.
        with suppress(Exception):
            fontManager.addfont(path)
    families = {entry.name: entry.fname for entry in fontManager.ttflist if entry.fname in paths}
    return dict(sorted(families.items(), key=lambda item: ("Sans" not in item[0], item)))


def new_figure(width: float, height: float, layout: Literal["constrained"] | None = "constrained") -> Figure:
    """Return a figure of this size in inches."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout=layout)
    FigureCanvasAgg(figure)
    return figure


def save_figure(figure: Figure, path: Path, **settings: Any) -> None:
    """Write a PNG, SVG or PDF file, chosen by the suffix of ``path``. Equal figures give equal files.

    ``settings`` are those of ``Figure.savefig``.
    """
    import matplotlib

    form = path.suffix[1:]
    date = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(form, {})
    # Fonts that are embedded as they are (42) keep the text of a PDF searchable; publishers refuse the default, type 3.
    options: dict[Any, Any] = {"svg.hashsalt": path.name, "pdf.fonttype": 42}
    with fonts_for(()), matplotlib.rc_context(options), replace_file(path) as file:
        figure.savefig(file, dpi=DPI, format=form, metadata=date, **settings)


def draw_weights(
    axes: Axes, weights: np.ndarray, scale: Scale, *, gold: Collection[Link] = (), title: str, size: float = FONT_SIZE
) -> AxesImage:
    """Draw each weight as a coloured cell, NaN in grey, with outlines of ``gold`` links (column, row) and a title.

    ``weights`` may also be colours (rows, columns, 3), such as those of ``mix_slots``.
    """
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Rectangle

    rows, columns = weights.shape[:2]
    image = axes.imshow(
        strongest(weights),
        aspect="auto",
        interpolation="nearest",
        interpolation_stage="rgba",  # twice as fast: the colours of the weights, not of the pixels
        cmap=ListedColormap(scale.table).with_extremes(bad="0.8"),
        vmin=scale.low,
        vmax=scale.limit,
        extent=(-0.5, columns - 0.5, rows - 0.5, -0.5),
    )
    for column, row in gold:
        axes.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, **OUTLINE))
    axes.xaxis.tick_top()
    axes.tick_params(length=0, labelsize=size)
    axes.set_title(xml_safe(title), loc="left", parse_math=False, fontsize=max(size, 9))
    return image


def mix_slots(write: np.ndarray, read: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the colours (T, S, 3) of the cells of an alignment, one colour per slot, and its largest weight.

    ``write`` (R, S) is α and ``read`` (T, R) is β, none negative. Slot k contributes β_tk α_ks to the cell of target
    piece t and source piece s. A cell mixes the colours of its slots; white means 0, and the cell with the largest
    weight has full colour. The weights of a target piece are divided by their sum.
    """
    read = read / np.maximum((read @ write).sum(axis=1, keepdims=True), np.finfo(np.float32).tiny)
    largest = max(float((read @ write).max()), float(np.finfo(np.float32).tiny))
    channels = [1 - read @ (write * (1 - channel)[:, None]) / largest for channel in slot_colours(len(write)).T]
    return np.stack(channels, axis=2).clip(0, 1), largest


def slot_colours(slots: int) -> np.ndarray:
    """Return one colour per slot, as RGB (R, 3): hues from red to violet, in the order of the slots."""
    from matplotlib.colors import hsv_to_rgb

    hues = np.linspace(0, 0.8, slots)
    colours: np.ndarray = hsv_to_rgb(np.stack([hues, np.full(slots, 0.9), np.full(slots, 0.75)], axis=1))
    return colours


def draw_bar(figure: Figure, image: AxesImage, scale: Scale, **position: Any) -> None:
    """Draw the colour bar of a picture, with numbers at both ends."""
    bar = figure.colorbar(image, ticks=scale.ticks(), format=lambda value, _: f"{value:.3g}", **position)
    bar.set_label("attention weight")


def strongest(weights: np.ndarray, limit: int = MAX_CELLS) -> np.ndarray:
    """Return the weights with at most ``limit`` rows and columns.

    Each cell is the weight with the largest absolute value of a block. matplotlib alone would leave out most cells of a
    picture with fewer pixels than cells.
    """
    for axis, size in enumerate(weights.shape):
        if size > limit:
            blocks = np.array_split(weights, limit, axis=axis)
            largest = [np.expand_dims(np.abs(block).argmax(axis=axis), axis) for block in blocks]
            taken = [np.take_along_axis(*pair, axis=axis) for pair in zip(blocks, largest, strict=True)]
            weights = np.concatenate(taken, axis=axis)
    return weights


def label_cells(
    axes: Axes, side: Literal["x", "y"], tokens: Sequence[str], *, pitch: float, size: float = FONT_SIZE
) -> float:
    """Write a label beside each column (``x``) or row (``y``). Cells are ``pitch`` points wide.

    The font shrinks until no label overlaps its neighbour. The labels of columns stand upright if all are narrow.
    Return how far the labels reach from the cells, in points.
    """
    size = min(size, 0.7 * pitch)
    axis = axes.xaxis if side == "x" else axes.yaxis
    labels = [short_label(token) for token in tokens]
    axis.set_ticks(range(len(labels)), labels, rotation=90 if side == "x" else 0, parse_math=False, fontsize=size)
    texts = axis.get_ticklabels()
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
    box = text.get_window_extent()
    figure = text.get_figure(root=True)
    assert figure is not None
    return box.width * POINTS / figure.dpi, box.height * POINTS / figure.dpi
