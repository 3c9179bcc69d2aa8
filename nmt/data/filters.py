"""Reasons to drop a training pair."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from nmt.data.invisible import Invisible
from nmt.data.links import MissingPair, Pair
from nmt.errors import counted
from nmt.settings.arguments import AtLeast, Count


@dataclass(frozen=True, kw_only=True)
class Filters:
    """The settings of every data source: changes of all text, and the filters of the training part.

    ``max_length`` is the maximum length of a side in pieces, without ``</s>``. ``max_ratio`` is the maximum ratio of
    the longer to the shorter side, in pieces.
    """

    lowercase: bool = False
    remove_invisible: Invisible | None = "bom"
    max_length: Count | None = None
    max_ratio: Annotated[float, AtLeast(1)] | None = None
    duplicates: bool = True

    def reason(self, pair: Pair, source: int, target: int) -> str | None:
        """Return the reason to drop a pair whose sides have ``source`` and ``target`` pieces, or None to keep it."""
        if isinstance(pair, MissingPair):
            return "a text is missing"
        if not (source and target):
            return "empty source" if source == 0 else "empty target"
        if self.max_length is not None and max(source, target) > self.max_length:
            return f"longer than {counted(self.max_length, 'piece')}"
        if self.max_ratio is not None and max(source, target) > self.max_ratio * min(source, target):
            return f"length ratio over {self.max_ratio:g}"
        return None


class TestFilters(Filters):
    """The filters of a validation or test set, which keeps all pairs that have two texts, even empty ones."""

    def reason(self, pair: Pair, source: int, target: int) -> str | None:
        return super().reason(pair, source, target) if isinstance(pair, MissingPair) else None


NO_FILTERS = Filters()
TEST_FILTERS = TestFilters()
