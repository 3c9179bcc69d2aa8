"""Counts of a text: the pairs that preparing kept and dropped, and how well a tokenizer reads their sides."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from nmt.errors import UserError, counted
from nmt.text.tokenizer import Tokenizer

UNUSUAL = 0.1  # share of the words with unknown tokens
FEW = 2  # so many words may be names or emoji in a short text


@dataclass(kw_only=True)
class Coverage:
    """Counts of a text as a tokenizer reads it. ``unknown`` tokens are ``<unk>`` or one byte of a character.

    ``words`` are separated by whitespace, ``unknown_words`` have an unknown token, and ``example`` is the first one.
    """

    words: int = 0
    tokens: int = 0
    unknown: int = 0
    unknown_words: int = 0
    example: str = ""

    def count(self, tokenizer: Tokenizer, texts: Sequence[str], encoded: Sequence[Sequence[int]]) -> None:
        """Count lines, which ``tokenizer`` has encoded as ``encoded``."""
        self.words += sum(len(text.split()) for text in texts)
        self.tokens += sum(map(len, encoded))
        readable = tokenizer.fallback.isdisjoint
        for text, ids in zip(texts, encoded, strict=True):
            if not readable(ids):
                self.unknown += sum(map(tokenizer.fallback.__contains__, ids))
                words = [word for word in text.split() if not readable(tokenizer.encode(word))]
                self.unknown_words += len(words)
                self.example = self.example or (words or [text])[0][:40]

    def add(self, other: Coverage) -> None:
        """Add the counts of another text."""
        example = self.example or other.example
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)
        self.example = example

    @property
    def unknown_share(self) -> float:
        """Share of the tokens that are ``<unk>`` or a byte."""
        return self.unknown / self.tokens if self.tokens else 0.0

    @property
    def tokens_per_word(self) -> float:
        return self.tokens / self.words if self.words else 0.0

    def problem(self) -> str | None:
        """Return the problem of the tokenizer with the text, or None."""
        if self.unknown_words <= max(FEW, UNUSUAL * self.words):
            return None
        share = f"{100 * self.unknown_share:.1f} % of the tokens are unknown characters or words"
        return f"{share}, as in {self.example!r}, with {self.tokens_per_word:.1f} tokens per word"


class TextCheck:
    """Counts the lines that a tokenizer reads, over all calls of a model, and warns once if it cannot read them.

    ``side`` names it in the warning. Unless it ``warns``, lines are encoded only.
    """

    def __init__(self, side: str, tokenizer: Tokenizer, *, warns: bool = True) -> None:
        self.counts = Coverage()
        self.warns = warns
        self._side, self._tokenizer, self._warned = side, tokenizer, not warns

    def encode(self, line: str) -> list[int]:
        """Return the piece ids of a line, and count it."""
        ids = self._tokenizer.encode(line)
        if not self._warned:
            self.counts.count(self._tokenizer, [line], [ids])
        return ids

    def conclude(self) -> None:
        """Warn if the lines so far are unreadable."""
        if not self._warned and (problem := self.counts.problem()) is not None:
            self._warned = True
            fix = "choose a model that was trained on such text"
            warnings.warn(f"{self._side} text: {problem}; {fix}", stacklevel=3)


@dataclass(kw_only=True)
class PairCounts:
    """Counts of the pairs that were kept, and of those dropped for each reason; lengths in pieces.

    ``source`` and ``target`` count all pairs, also those that were dropped. ``in_train`` and ``sources_in_train`` are
    the pairs and sources of a validation or test part that also occur in the training part. ``several`` kept pairs have
    several sentences in their source; None: an earlier version did not count them.
    """

    kept: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    source_pieces: int = 0
    target_pieces: int = 0
    source: Coverage = field(default_factory=Coverage)
    target: Coverage = field(default_factory=Coverage)
    in_train: int = 0
    sources_in_train: int = 0
    empty: int = 0  # kept pairs with an empty side: only those of validation and test parts are kept
    several: int | None = None

    def __post_init__(self) -> None:
        self.dropped = Counter(self.dropped)  # a dictionary in JSON files

    @property
    def total(self) -> int:
        return self.kept + self.dropped.total()

    @property
    def single_sentences(self) -> bool:
        """Whether most sources are known to be single sentences."""
        return self.several is not None and 2 * self.several < self.kept

    @property
    def sides(self) -> dict[str, Coverage]:
        return {"source": self.source, "target": self.target}

    def add(self, other: PairCounts) -> None:
        """Add other counts to these."""
        for name, value in vars(other).items():
            if isinstance(value, int):
                setattr(self, name, (getattr(self, name) or 0) + value)
        self.dropped.update(other.dropped)
        self.source.add(other.source)
        self.target.add(other.target)

    def lines(self) -> list[str]:
        """Return lines about the kept pairs and those that the training part has too, then one for each reason."""
        kept = f"{self.kept:,} of {counted(self.total, 'pair')} kept"
        dropped = [f"{count:,} dropped: {reason}" for reason, count in self.dropped.most_common()]
        sizes = f"{self.source_pieces:,} source and {counted(self.target_pieces, 'target piece')}"
        return [f"{kept}: {sizes}", *self.overlap_lines(), *dropped]

    def overlap_lines(self) -> list[str]:
        """Return a line about the pairs that the training part has too, before any is dropped, if there are any."""
        if not self.sources_in_train:
            return []
        sources = f"{self.sources_in_train:,} of {counted(self.total, 'source')} also in the training text"
        learned = "; scores on it do not hold for new text" if 2 * self.sources_in_train > self.total else ""
        return [f"{sources}, {self.in_train:,} with the same target{learned}"]

    def require_pairs(self, part: str) -> None:
        """Raise UserError, with the reason, if no pair of this ``part`` of the data was kept."""
        if self.kept == 0:
            reasons = [f"{count:,} {reason}" for reason, count in self.dropped.most_common()]
            reasons += [f"{side}: {problem}" for side, counts in self.sides.items() if (problem := counts.problem())]
            why = (
                f"0 of {counted(self.total, 'pair')} kept ({', '.join(reasons)})" if reasons else "no pairs were given"
            )
            raise UserError(f"data.{part}: {why}; relax the filters or give more text")
