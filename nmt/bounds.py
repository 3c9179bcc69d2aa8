"""Bounds for numbers, written in the type annotation: ``slots: Annotated[int, AtLeast(1)]``.

The configuration is checked against them before any work starts, so constructors need no checks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf
from typing import Any


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
