"""Bounds for numbers, written where the number is declared: ``slots: Annotated[int, AtLeast(1)]``.

The configuration is checked against these before any work starts; constructors stay free of checks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf
from typing import Any


@dataclass(frozen=True)
class AtLeast:
    """value ≥ low."""

    low: float

    def holds(self, value: float) -> bool:
        return value >= self.low

    def __str__(self) -> str:
        return f"must be ≥ {self.low:g}"


@dataclass(frozen=True)
class Above:
    """value > low."""

    low: float

    def holds(self, value: float) -> bool:
        return value > self.low

    def __str__(self) -> str:
        return f"must be > {self.low:g}"


@dataclass(frozen=True)
class AtMost:
    """value ≤ high."""

    high: float

    def holds(self, value: float) -> bool:
        return value <= self.high

    def __str__(self) -> str:
        return f"must be ≤ {self.high:.10g}"


@dataclass(frozen=True)
class Within:
    """low ≤ value < high: probabilities that may be 0 but never 1, such as dropout."""

    low: float
    high: float

    def holds(self, value: float) -> bool:
        return self.low <= value < self.high

    def __str__(self) -> str:
        return f"must be ≥ {self.low:g} and < {self.high:g}"


def broken(value: float, bounds: Iterable[Any]) -> list[str]:
    """What ``value`` must satisfy and does not, one text for each; what is no bound among ``bounds`` is passed over.

    No bounded number may be infinite.
    """
    known = [bound for bound in bounds if hasattr(bound, "holds")]
    # "not holds" and not "fails", so that NaN is refused too.
    found = [str(bound) for bound in known if not bound.holds(value)]
    return found or (["must be finite"] if known and value == inf else [])
