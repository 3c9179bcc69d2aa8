"""Groups of sentences of similar source length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

BUCKETS = 4


class Bucket(NamedTuple):
    """Source lengths from ``low`` to ``high``, both included."""

    low: int
    high: int

    @property
    def label(self) -> str:
        return f"{self.low}–{self.high}" if self.low < self.high else f"{self.low}"

    def rows(self, lengths: Sequence[int]) -> list[int]:
        """Return the indices of the lengths in this bucket."""
        return [row for row, length in enumerate(lengths) if self.low <= length <= self.high]


def length_buckets(lengths: Sequence[int], count: int = BUCKETS) -> list[Bucket]:
    """Return up to ``count`` buckets, from short to long, that hold about equally many of these lengths.

    Equal lengths are in the same bucket, and each bucket holds at least one length.
    """
    ordered = np.sort(np.asarray(lengths))
    highs = sorted({int(ordered[max(0, round(len(ordered) * part / count) - 1)]) for part in range(1, count + 1)})
    lows = [int(ordered[0]), *(int(ordered[np.searchsorted(ordered, high, side="right")]) for high in highs[:-1])]
    return [Bucket(low, high) for low, high in zip(lows, highs, strict=True)]


def spread_rows(lengths: Sequence[int], count: int, *, longest: int) -> list[int]:
    """Return up to ``count`` indices of lengths from 2 to ``longest``, spread evenly from short to long.

    Length 1 is an empty line.
    """
    order = [row for row in np.argsort(np.asarray(lengths), kind="stable").tolist() if 1 < lengths[row] <= longest]
    places = np.linspace(0, len(order) - 1, min(count, len(order))) if order else np.zeros(0)
    return [order[round(place)] for place in places.tolist()]
