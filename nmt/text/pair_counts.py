"""Counts of the pairs that preparing kept and dropped."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from nmt.errors import UserError, counted
from nmt.text.coverage import Coverage


class NoPairs(UserError):
    """A part of the data has no pair, or the filters dropped all of them."""


@dataclass(kw_only=True)
class PairCounts:
    """Counts of the pairs that were kept, and of those dropped for each reason; lengths in pieces.

    ``source`` and ``target`` count all pairs, also those that were dropped. ``in_train`` and ``sources_in_train`` are
    the pairs and sources of a validation or test part that also occur in the training part.
    """

    kept: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    source_pieces: int = 0
    target_pieces: int = 0
    normalised: int = 0  # kept pairs with characters that the tokenizer replaces by their normal form
    source: Coverage = field(default_factory=Coverage)
    target: Coverage = field(default_factory=Coverage)
    in_train: int = 0
    sources_in_train: int = 0
    empty: int = 0  # kept pairs with an empty side: only those of validation and test parts are kept

    def __post_init__(self) -> None:
        self.dropped = Counter(self.dropped)  # a dictionary in JSON files

    @property
    def total(self) -> int:
        return self.kept + self.dropped.total()

    def add(self, other: PairCounts) -> None:
        """Add other counts to these."""
        for name, value in vars(other).items():
            if isinstance(value, int):
                setattr(self, name, getattr(self, name) + value)
        self.dropped.update(other.dropped)
        self.source.add(other.source)
        self.target.add(other.target)

    def lines(self) -> list[str]:
        """Return lines about the kept pairs, then one for each reason, most frequent first."""
        kept = f"{self.kept:,} of {counted(self.total, 'pair')} kept"
        sizes = f"{self.source_pieces:,} source and {counted(self.target_pieces, 'target piece')}"
        first = [f"{kept}: {sizes}"] + [f"{self.normalised:,} normalised"] * (self.normalised > 0)
        dropped = [f"{count:,} dropped: {reason}" for reason, count in self.dropped.most_common()]
        return first + self.overlap_lines() + dropped

    def overlap_lines(self) -> list[str]:
        """Return a line about the pairs that the training part has too, before any is dropped, if there are any."""
        if not self.sources_in_train:
            return []
        sources = f"{self.sources_in_train:,} of {counted(self.total, 'source')} also in the training text"
        learned = "; scores on it do not hold for new text" if 2 * self.sources_in_train > self.total else ""
        return [f"{sources}, {self.in_train:,} with the same target{learned}"]

    def require_pairs(self, part: str) -> None:
        """Raise NoPairs, with the reason, if no pair of this ``part`` of the data was kept."""
        if self.kept == 0:
            reasons = ", ".join(f"{count:,} {reason}" for reason, count in self.dropped.most_common())
            why = f"0 of {counted(self.total, 'pair')} kept ({reasons})" if reasons else "no pairs were given"
            for side, counts in (("source", self.source), ("target", self.target)):
                if counts.is_unreadable:
                    why += f"; the tokenizer cannot read the {side}, such as {counts.examples[0]!r}"
            raise NoPairs(f"data.{part}: {why}; relax the filters or give more text")

    def reading(self) -> dict[str, Any]:
        """Return for each side the share of unknown tokens and the tokens per word."""
        return {
            side: {"unknown": round(counts.unknown_share, 4), "tokens_per_word": round(counts.tokens_per_word, 2)}
            for side, counts in (("source", self.source), ("target", self.target))
        }
