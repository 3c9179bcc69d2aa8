"""Lexicons: files with a source word, a tab and its translation on each line, and how word links give one."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path

from nmt.data.links import Link
from nmt.data.text_files import read_lines
from nmt.data.words import count_words, split_words
from nmt.errors import UserError


def read_lexicon(path: str | Path) -> Mapping[str, str]:
    """Return the translation of each source word, which may have several words. A file is read again if it changes.

    Raises UserError, with the line, for a line of another form and for a word with two different translations.
    """
    return _read(str(path), changed_at(path))


def changed_at(path: str | Path) -> int | None:
    """Return the time at which a file was changed last, in nanoseconds; None for anything else, such as a pipe."""
    return os.stat(path).st_mtime_ns if os.path.isfile(path) else None


@lru_cache(maxsize=1)
def _read(path: str, changed: int | None) -> Mapping[str, str]:
    """Return the lexicon in a file that was ``changed`` at this time: a server translates many short requests."""
    lexicon: dict[str, str] = {}
    for number, line in enumerate(read_lines(path), start=1):
        source, _, target = line.partition("\t")
        if count_words(source) != 1 or not target.strip() or "\t" in target:
            raise UserError(f"{path}:{number}: {line!r:.80}: write one source word, a tab and its translation")
        if lexicon.setdefault(source.strip(" "), target.strip(" ")) != target.strip(" "):
            raise UserError(f"{path}:{number}: {line!r:.80}: the word has another translation above; keep one of them")
    return lexicon


class LinkCounts:
    """How often each source word is linked to each target word."""

    def __init__(self) -> None:
        self._counts: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def add(self, source: str, target: str, links: Iterable[Link]) -> None:
        """Count the links of a sentence pair."""
        sides = split_words(source), split_words(target)
        for i, j in links:
            self._counts[sides[0][i]][sides[1][j]] += 1

    def lexicon_lines(self, min_count: int) -> Iterator[str]:
        """Yield a line for each source word: the word, a tab, and the target word that it is linked to most.

        Links that were counted less than ``min_count`` times are left out. Of words that are linked equally often, the
        first in the order of their characters is taken.
        """
        for source, targets in sorted(self._counts.items()):
            target, count = min(targets.items(), key=lambda item: (-item[1], item[0]))
            if count >= min_count:
                yield f"{source}\t{target}"
