"""Colours of weights, the same in all pictures and pages, so that one colour means one weight everywhere."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

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
        """Colours (N, 3) in [0, 1] of equal steps from ``low`` to ``limit``. Lightness changes evenly."""
        blues = _ramp(BLUES)
        return np.concatenate([_ramp(REDS)[::-1], blues]) if self.signed else blues

    @cached_property
    def _pairs(self) -> list[tuple[str, str]]:
        """The colours of the table as ``#rrggbb``, each with the colour of text that can be read on it."""
        return [
            ("#" + "".join(f"{round(255 * part):02x}" for part in entry), "#000" if _lightness(entry) > 55 else "#fff")
            for entry in self.table
        ]

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


def scales_of(weights: list[np.ndarray]) -> list[Scale]:
    """Return a scale for each matrix: 0 to 1 for those inside, and one common scale for all others."""
    inside = [scale_of(matrix, signed=bool((matrix < 0).any())) == UNIT for matrix in weights]
    others = [matrix for matrix, unit in zip(weights, inside, strict=True) if not unit]
    common = scale_of(*others, signed=any((matrix < 0).any() for matrix in others))
    return [UNIT if unit else common for unit in inside]


def _ramp(colours: tuple[str, ...]) -> np.ndarray:
    """Return ``STEPS`` colours (STEPS, 3) between these, placed so that equal steps change lightness equally."""
    anchors = np.array([[int(colour[k : k + 2], 16) / 255 for k in (0, 2, 4)] for colour in colours])
    lightness = np.array([_lightness(anchor) for anchor in anchors])
    darkness = (lightness[0] - lightness) / (lightness[0] - lightness[-1])
    steps = np.linspace(0, 1, STEPS)
    return np.stack([np.interp(steps, darkness, channel) for channel in anchors.T], axis=1)


def _lightness(colour: np.ndarray) -> float:
    """Return L* in CIELAB, from 0 (black) to 100 (white), of a colour in sRGB."""
    linear = np.where(colour <= 0.04045, colour / 12.92, ((colour + 0.055) / 1.055) ** 2.4)
    luminance = float(linear @ (0.2126, 0.7152, 0.0722))
    return 116 * luminance ** (1 / 3) - 16 if luminance > 0.008856 else 903.3 * luminance
