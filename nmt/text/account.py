"""Counts of the pairs that preparing kept and dropped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nmt.errors import UserError, counted


class NoPairs(UserError):
    """A part of the data has no pair, or the filters dropped all of them."""


@dataclass
class Account:
    """Counts of the pairs that were kept, and of those dropped for each reason; lengths in pieces."""

    kept: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    source_pieces: int = 0
    target_pieces: int = 0
    normalised: int = 0  # kept pairs with characters that the tokenizer replaces by their normal form

    @property
    def total(self) -> int:
        return self.kept + self.dropped.total()

    def add(self, other: Account) -> None:
        """Add the counts of another account to this one."""
        self.kept += other.kept
        self.dropped.update(other.dropped)
        self.source_pieces += other.source_pieces
        self.target_pieces += other.target_pieces
        self.normalised += other.normalised

    def lines(self) -> list[str]:
        """Return lines about the kept pairs, then one for each reason, most frequent first."""
        kept = f"{self.kept:,} of {counted(self.total, 'pair')} kept"
        sizes = f"{self.source_pieces:,} source and {counted(self.target_pieces, 'target piece')}"
        first = [f"{kept}: {sizes}"] + [f"{self.normalised:,} normalised"] * (self.normalised > 0)
        return first + [f"{count:,} dropped: {reason}" for reason, count in self.dropped.most_common()]

    def require_pairs(self, part: str) -> None:
        """Raise NoPairs, with the reason, if no pair of this ``part`` of the data was kept."""
        if self.kept == 0:
            reasons = ", ".join(f"{count:,} {reason}" for reason, count in self.dropped.most_common())
            why = f"0 of {counted(self.total, 'pair')} kept ({reasons})" if reasons else "no pairs were given"
            raise NoPairs(f"data.{part}: {why}; relax the filters or give more text")

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def as_dict(self) -> dict[str, Any]:
        """Return the counts as plain data, for JSON files."""
        return {**vars(self), "dropped": dict(self.dropped)}

    @classmethod
    def from_dict(cls, counts: Mapping[str, Any]) -> Account:
        """Return the account whose ``as_dict`` gave ``counts``."""
        return cls(**{**counts, "dropped": Counter(counts["dropped"])})

    @staticmethod
    def is_valid(counts: object) -> bool:
        """Return whether ``as_dict`` could have returned ``counts``."""
        if not isinstance(counts, dict) or counts.keys() != Account().as_dict().keys():
            return False
        dropped = counts["dropped"]
        numbers = [number for name, number in counts.items() if name != "dropped"]
        return isinstance(dropped, dict) and all(type(number) is int for number in [*numbers, *dropped.values()])
