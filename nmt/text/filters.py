"""Reasons to drop a training pair."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from nmt.errors import counted
from nmt.text.languages import is_foreign
from nmt.text.pair import MissingPair, Pair

Duplicates = Literal["exact", "near"]


@dataclass(frozen=True, kw_only=True)
class PairFilters:
    """The filters of a part: long and unequal pairs, empty sides unless ``keep_empty``, identical sides on request.

    ``max_length`` is the longest side in pieces, without ``</s>``. ``max_ratio`` is that of the longer to the shorter
    side, in pieces. ``languages`` are the codes of both sides; lines in other languages are dropped.
    """

    max_length: int | None = None
    max_ratio: float | None = None
    keep_empty: bool = False
    drop_identical: bool = False
    languages: tuple[str, str] | None = None

    @classmethod
    def of_training(cls, data: Mapping[str, Any]) -> PairFilters:
        """Return the filters of the training part that a ``data`` block describes."""
        return cls(
            max_length=data.get("max_length"),
            max_ratio=data.get("max_ratio"),
            drop_identical=bool(data.get("drop_identical")),
            languages=data.get("languages"),
        )

    def reason(self, pair: Pair, source: int, target: int) -> str | None:
        """Return why a pair whose sides have ``source`` and ``target`` pieces is dropped, or None."""
        if isinstance(pair, MissingPair):
            return "a text is missing"
        if not (source and target):
            return None if self.keep_empty else "empty source" if source == 0 else "empty target"
        if self.drop_identical and pair.source.split() == pair.target.split():
            return "identical sides"
        if self.max_length is not None and max(source, target) > self.max_length:
            return f"longer than {counted(self.max_length, 'piece')}"
        if self.max_ratio is not None and max(source, target) > self.max_ratio * min(source, target):
            return f"length ratio over {self.max_ratio:g}"
        if self.languages is not None:
            for name, line, language in zip(("source", "target"), pair[:2], self.languages, strict=True):
                if is_foreign(line, language):
                    return f"{name} not in language {language}"
        return None


TEST_FILTERS = PairFilters(keep_empty=True)  # a validation or test set keeps all pairs that have two texts
