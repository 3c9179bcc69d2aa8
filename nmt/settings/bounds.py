"""Bounds for numbers and names, written in the type annotation: ``slots: Annotated[int, AtLeast(1)]``.

Configurations are checked against them before any work starts, and constructors check their arguments:
``nmt.settings.arguments`` does both.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf
from typing import Annotated, Any


@dataclass(frozen=True)
class AtLeast:
    """Bound: value ≥ low."""

    low: float

    def holds(self, value: float) -> bool:
        return value >= self.low

    def __str__(self) -> str:
        return f"must be at least {self.low:g}"


@dataclass(frozen=True)
class Above:
    """Bound: value > low."""

    low: float

    def holds(self, value: float) -> bool:
        return value > self.low

    def __str__(self) -> str:
        return f"must be greater than {self.low:g}"


@dataclass(frozen=True)
class AtMost:
    """Bound: value ≤ high."""

    high: float

    def holds(self, value: float) -> bool:
        return value <= self.high

    def __str__(self) -> str:
        return f"must be at most {self.high:.10g}"


@dataclass(frozen=True)
class Within:
    """Bound: low ≤ value < high, for probabilities that may be 0 but never 1, such as dropout."""

    low: float
    high: float

    def holds(self, value: float) -> bool:
        return self.low <= value < self.high

    def __str__(self) -> str:
        return f"must be at least {self.low:g} and less than {self.high:g}"


@dataclass(frozen=True)
class FolderName:
    """Bound of the name of a folder: not ``-``, which means stdout, or a ``~`` that no shell has replaced."""

    def holds(self, value: str) -> bool:
        return value != "-" and not value.startswith("~/")

    def __str__(self) -> str:
        return "must be the name of a folder: - is stdout, and ~ works only without quotes; write $HOME for ~"


Folder = Annotated[str, FolderName()]
Count = Annotated[int, AtLeast(1)]
NonNegative = Annotated[float, AtLeast(0)]
Positive = Annotated[float, Above(0)]
Share = Annotated[float, Within(0, 1)]
# Far above any useful model. Larger numbers are typing errors, or attempts to exhaust the memory.
Size = Annotated[int, AtLeast(1), AtMost(65_536)]
"""Numbers per state, key or embedding, and slots of a memory."""
Threads = Annotated[int, AtLeast(1), AtMost(1024)]  # torch crashes silently with many more
Layers = Annotated[int, AtLeast(1), AtMost(100)]
PairCount = Annotated[int, AtLeast(1), AtMost(10_000_000)]
"""Generated sentence pairs, all of which are held in memory."""


def violations(value: float, metadata: Iterable[Any]) -> list[str]:
    """Return one text for each bound in ``metadata`` that ``value`` violates; other annotations are skipped.

    Positive infinity violates every bound, and so does NaN. Whole numbers without an upper bound must fit 32 bits.
    """
    bounds = [item for item in metadata if hasattr(item, "holds")]
    if bounds and isinstance(value, int) and not any(isinstance(bound, AtMost | Within) for bound in bounds):
        bounds.append(AtMost(2**31 - 1))
    # "not holds", because every comparison with NaN is false.
    texts = [str(bound) for bound in bounds if not bound.holds(value)]
    return texts or (["must be finite"] if bounds and value == inf else [])
