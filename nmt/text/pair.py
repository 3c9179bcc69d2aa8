"""One sentence and its translation, and which words are known to translate which."""

from __future__ import annotations

from typing import NamedTuple


class Pair(NamedTuple):
    """A sentence pair; ``links`` are gold (source word, target word) pairs, 0-based over whitespace words."""

    source: str
    target: str
    links: tuple[tuple[int, int], ...] | None = None
