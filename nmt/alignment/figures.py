"""The parts of all figures: colours of weights, readable labels, fonts, files."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from nmt.errors import UserError, printable
from nmt.files.atomic import replace_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STEPS = 256  # colours per sign
# The red half of ColorBrewer's RdBu, from -1 to 0, and its Blues, from 0 to 1.
REDS = ("67001f", "b2182b", "d6604d", "f4a582", "fddbc7")
BLUES = ("f7fbff", "deebf7", "c6dbef", "9ecae1", "6baed6", "4292c6", "2171b5", "08519c", "08306b")
PLACES = (*np.linspace(-1, 0, len(REDS), endpoint=False), *np.linspace(0, 1, len(BLUES)))
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
        steps = np.linspace(-1 if self.signed else 0, 1, STEPS * (1 + self.signed))
        channels = np.array([[*bytes.fromhex(colour)] for colour in (*REDS, *BLUES)]).T / 255
        return np.stack([np.interp(steps, PLACES, channel) for channel in channels], axis=1)

    @cached_property
    def _pairs(self) -> list[tuple[str, str]]:
        """The colours of the table as ``#rrggbb``, each with the colour of text that has a contrast of at least 4.5."""
        linear = np.where(self.table <= 0.04045, self.table / 12.92, ((self.table + 0.055) / 1.055) ** 2.4)
        light = linear @ (0.2126, 0.7152, 0.0722) > 0.18
        codes = [f"#{bytes(row).hex()}" for row in np.round(255 * self.table).astype(np.uint8)]
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


def scale_of(weights: np.ndarray, *, signed: bool) -> Scale:
    """Return the scale of a matrix: 0 to 1 for shares of the source.

    If a weight is larger, the scale ends at the largest. A ``signed`` scale ends at the largest absolute weight. NaN
    and infinite weights are ignored.
    """
    largest = float(np.abs(weights[np.isfinite(weights)]).max(initial=0))
    return Scale(largest or 1.0, signed) if signed or largest > 1 + ROUNDING else UNIT


POINTS = 72  # per inch
DPI = 120
DEFAULT_FONT = "DejaVu Sans"  # comes with matplotlib; lacks many scripts
MAX_LABEL_LENGTH = 40  # characters
# https://www.w3.org/TR/xml/#NT-Char: SVG cannot hold these characters, not even escaped.
FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def xml_safe(text: str) -> str:
    """Return the text with U+FFFD for each character that XML forbids.

    These are most control characters, lone surrogates, U+FFFE and U+FFFF.
    """
    return FORBIDDEN.sub("\ufffd", text)


def short_label(token: str) -> str:
    """Return a token as one short readable line, with escapes for invisible characters."""
    text = xml_safe(printable(token[: MAX_LABEL_LENGTH + 1]))  # a token can have millions of characters
    return text if len(text) <= MAX_LABEL_LENGTH else text[: MAX_LABEL_LENGTH - 1] + "…"


@contextmanager
def fonts_for(texts: Iterable[str]) -> Iterator[None]:
    """Draw text in the default font, and each character that it lacks in an installed font that has it.

    Characters that no font has are drawn as boxes, and a warning names them.
    """
    import matplotlib
    from matplotlib.font_manager import fontManager, get_font

    fonts = [font for font in fontManager.ttflist if not font.name.startswith("Last Resort")]  # it has only boxes
    fonts.sort(key=lambda font: (font.name != DEFAULT_FONT, "Sans" not in font.name))
    families, missing = {DEFAULT_FONT: True}, {*filter(str.isprintable, "".join(texts))}
    for font in fonts:
        if missing and (found := {c for c in missing if get_font(font.fname).get_char_index(ord(c))}):
            families[font.name] = True
            missing -= found
    if missing:
        warnings.warn(
            f"no installed font has {' '.join(sorted(missing)):.60}: the picture shows boxes; install fonts that have "
            "them, such as fonts-noto-core, fonts-noto-cjk or fonts-symbola of Debian",
            stacklevel=3,
        )
    with warnings.catch_warnings(), matplotlib.rc_context({"font.family": [*families]}):
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        yield


def new_figure(width: float, height: float, layout: Literal["constrained"] | None = "constrained") -> Figure:
    """Return a figure of this size in inches."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout=layout)
    FigureCanvasAgg(figure)
    return figure


def save_figure(figure: Figure, path: Path) -> None:
    """Write a PNG, SVG or PDF file, chosen by the suffix of ``path``. Equal figures give equal files.

    Raises UserError for any other suffix, or if the file cannot be written.
    """
    import matplotlib

    dates = {".png": {}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    if path.suffix not in dates:
        raise UserError(f"{path}: unsupported format; use .png, .svg or .pdf")
    # Fonts that are embedded as they are (42) keep the text of a PDF searchable; publishers refuse the default, type 3.
    options: dict[Any, Any] = {"svg.hashsalt": path.name, "pdf.fonttype": 42}
    with fonts_for(()), matplotlib.rc_context(options), replace_file(path) as file:
        metadata = dates[path.suffix]
        figure.savefig(file, dpi=DPI, format=path.suffix[1:], metadata=metadata, bbox_inches="tight")  # all labels


LINES = ("-", "--", "-.", ":")
LEGEND: dict[str, Any] = {"frameon": False, "fontsize": "small"}


def styles_of(labels: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the colour and line style of each model. Line styles help readers who cannot distinguish the colours."""
    from matplotlib import colormaps

    palette = colormaps["tab10" if len(labels) <= 10 else "tab20"].colors  # type: ignore[attr-defined]
    cycles = zip(labels, cycle(palette), cycle(LINES), strict=False)
    return {label: {"color": colour, "linestyle": line} for label, colour, line in cycles}


def finish_axes(axes: Axes, x: str, y: str) -> None:
    """Name both axes, and draw a grid."""
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.grid(alpha=0.3)


def legend_text(text: str) -> str:
    """Return the text of a legend: matplotlib reads text between two ``$`` as a formula, and hides ``_text``."""
    return f" {text}".replace("$", r"\$")
