"""Training losses since the last point of the learning curve."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

POINT_EVERY = 20  # updates


class IntervalMeans:
    """The mean of each loss per piece, over all batches since the last point.

    The loss of a single batch follows the lengths of its sentences, and so does not show how a model learns.
    """

    def __init__(
        self, number: int = 0, sums: Mapping[str, float] | None = None, counts: Mapping[str, int] | None = None
    ) -> None:
        self.number = number  # of the interval
        self._sums = dict(sums or {})
        self._counts = dict(counts or {})

    def add(self, number: int, means: Mapping[str, float], counts: Mapping[str, int]) -> None:
        """Add the mean losses of a batch in the interval ``number``, each over as many pieces as ``counts`` says."""
        if number != self.number:
            self.number = number
            self._sums.clear()
            self._counts.clear()
        for name, mean in means.items():
            self._sums[name] = self._sums.get(name, 0.0) + mean * counts[name]
            self._counts[name] = self._counts.get(name, 0) + counts[name]

    @property
    def means(self) -> dict[str, float]:
        """The mean of each loss so far."""
        return {name: total / max(1, self._counts[name]) for name, total in self._sums.items()}

    def state(self) -> dict[str, Any]:
        """Return the arguments with which a resumed run continues."""
        return {"number": self.number, "sums": dict(self._sums), "counts": dict(self._counts)}
