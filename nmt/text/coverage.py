"""Counts of a text, which say how well a tokenizer reads it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

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

    def problem(self) -> str | None:
        """Return the problem of the tokenizer with the text, or None."""
        if self.unknown_words <= max(FEW, UNUSUAL * self.words):
            return None
        share = f"{100 * self.unknown / self.tokens:.1f} % of the tokens are unknown characters or words"
        return f"{share}, as in {self.example!r}, with {self.tokens / self.words:.1f} tokens per word"


class TextCheck:
    """Counts the lines that a tokenizer reads, over all calls of a model, and warns once if it cannot read them.

    ``side`` names it in the warning. Unless it ``warns``, lines are encoded only.
    """

    def __init__(self, side: str, tokenizer: Tokenizer, *, warns: bool) -> None:
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
