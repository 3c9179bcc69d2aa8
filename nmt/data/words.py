"""Words of a line, as word aligners count them, and the words that a part of the line has characters of."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

Span = tuple[int, int]
"""Start and end of a part of a text. An empty part stands for the character at its start."""
WORD = re.compile("[^ \t]+")


def split_words(line: str) -> list[str]:
    """Return the words of a line: its longest runs of characters other than space and tab.

    fast_align counts words in this way. All other characters belong to words, also U+00A0, U+3000 and those that
    ``str.split`` takes for spaces.
    """
    return WORD.findall(line)


def overlaps(spans: Sequence[Span], parts: Iterable[Span]) -> list[range]:
    """Return the numbers of the ``spans``, which are in order, that have characters of each part."""
    starts, stops = [start for start, _ in spans], [stop for _, stop in spans]
    firsts = ((bisect_right(stops, start), max(stop, start + 1)) for start, stop in parts)
    return [range(first, max(first, bisect_left(starts, stop))) for first, stop in firsts]


def words_of(line: str, parts: Iterable[Span]) -> list[range]:
    """Return the numbers of the words of a line that each part of it has characters of."""
    return overlaps([match.span() for match in WORD.finditer(line)], parts)


def count_words(line: str) -> int:
    """Return the number of words of a line; see ``split_words``."""
    return len(split_words(line))


def mapped(parts: Sequence[Span], start: int, stop: int) -> Span:
    """Return the part of another text that the characters from ``start`` to ``stop`` belong to; −1 for none."""
    if not 0 <= start < len(parts):
        return -1, -1
    first, last = parts[start][0], parts[max(start, stop - 1)][1]
    return (first, last) if first < last else (-1, -1)
