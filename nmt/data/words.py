"""Words of a line, as word aligners count them, and the words that each piece of a tokenizer belongs to."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

WORD = re.compile("[^ \t]+")


def split_words(line: str) -> list[str]:
    """Return the words of a line: its longest runs of characters other than space and tab.

    fast_align counts words in this way. All other characters belong to words, also U+00A0, U+3000 and those that
    ``str.split`` takes for spaces.
    """
    return [word for word in line.replace("\t", " ").split(" ") if word]


def word_positions(line: str) -> list[tuple[int, int]]:
    """Return start and end of each word of a line; see ``split_words``."""
    return [match.span() for match in WORD.finditer(line)]


def overlapping(spans: Sequence[tuple[int, int]], start: int, stop: int) -> range:
    """Return the numbers of the ``spans``, in their order, that have characters between ``start`` and ``stop``."""
    first = bisect_right(spans, start, key=lambda span: span[1])
    return range(first, bisect_left(spans, stop, key=lambda span: span[0]))


def count_words(line: str) -> int:
    """Return the number of words of a line; see ``split_words``."""
    return len(split_words(line))


class PieceWords(list[int]):
    """The 0-based word of each piece, −1 for a piece that belongs to no word.

    A piece of several words, such as ``▁New▁York``, is listed with its first word, and ``last`` holds its last one.
    """

    def __init__(self, first: Iterable[int] = (), last: Iterable[int] | None = None) -> None:
        super().__init__(first)
        self.last = self[:] if last is None else list(last)

    @classmethod
    def of(cls, spans: Iterable[tuple[int, int]]) -> PieceWords:
        """Return the words of pieces with these first and last words."""
        listed = list(spans)
        return cls((first for first, _ in listed), (last for _, last in listed))


def last_words(words: Sequence[int]) -> Sequence[int]:
    """Return the last word of each piece; ``words`` are the first ones."""
    return words.last if isinstance(words, PieceWords) else words


def word_spans(words: Sequence[int]) -> list[tuple[int, int]]:
    """Return the first and the last word of each piece."""
    return list(zip(words, last_words(words), strict=True))


def missing_words(words: Sequence[int], count: int) -> list[int]:
    """Return the numbers of the ``count`` words of a line that have no piece: its tokenizer removes them."""
    covered = {word for first, last in word_spans(words) for word in range(first, last + 1)}
    return [word for word in range(count) if word not in covered]
