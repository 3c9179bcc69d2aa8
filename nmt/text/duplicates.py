"""Repeated pairs: drop copies in the training part, and count test pairs that the training part has too."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import islice

import numpy as np

from nmt.data.filters import Duplicates
from nmt.data.pair import Pair
from nmt.text.pair_counts import PairCounts

GROUP = 8192  # pairs that are looked up at once


class _Letters(dict[int, int | None]):
    """A translation table that keeps letters and their marks, and drops all other characters."""

    def __missing__(self, code: int) -> int | None:
        self[code] = code if unicodedata.category(chr(code))[0] in "LM" else None
        return self[code]


LETTERS = _Letters()


def without_duplicates(pairs: Iterable[Pair], kind: Duplicates | None, counts: PairCounts) -> Iterator[Pair]:
    """Yield the pairs without later copies of the same pair, and count the copies in ``counts``.

    ``near`` compares only the letters of both sides, without case. Two different pairs are taken for copies if their
    64-bit hashes are equal: among 50 million pairs the probability is below 1 in 10,000.
    """
    if kind is None:
        yield from pairs
        return
    seen = SeenHashes()
    remaining = iter(pairs)
    while group := list(islice(remaining, GROUP)):
        hashes = np.array([_hash(pair, kind) for pair in group], dtype=np.uint64)
        for pair, is_new in zip(group, seen.add(hashes).tolist(), strict=True):
            if is_new or not (pair.source.strip() and pair.target.strip()):  # empty sides have their own count
                yield pair
            else:
                counts.dropped["duplicate" if kind == "exact" else "near duplicate"] += 1


class SeenHashes:
    """A growing set of 64-bit hashes: sorted arrays, of which each is more than twice as long as the next."""

    def __init__(self) -> None:
        self._levels: list[np.ndarray] = []

    def add(self, hashes: np.ndarray) -> np.ndarray:
        """Add hashes (N,). Return a mask (N,) that is True where a hash occurs for the first time."""
        is_new = np.zeros(len(hashes), dtype=bool)
        is_new[np.unique(hashes, return_index=True)[1]] = True
        for level in self._levels:
            rows = np.flatnonzero(is_new)
            indices = np.minimum(np.searchsorted(level, hashes[rows]), len(level) - 1)
            is_new[rows] = level[indices] != hashes[rows]
        if is_new.any():
            self._levels.append(np.sort(hashes[is_new]))
        while len(self._levels) > 1 and len(self._levels[-2]) <= 2 * len(self._levels[-1]):
            last = self._levels.pop()
            other = self._levels.pop()
            merged = np.concatenate([other, last])
            merged.sort(kind="stable")  # merges two sorted runs
            self._levels.append(merged)
        return is_new


def _hash(pair: Pair, kind: Duplicates) -> int:
    sides = (pair.source, pair.target)
    if kind == "near":
        sides = _letters(pair.source), _letters(pair.target)
    text = f"{len(sides[0])} {sides[0]}{sides[1]}"
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def _letters(text: str) -> str:
    """Return the letters of the text in one case; a text without letters stays as it is."""
    return unicodedata.normalize("NFKC", text).casefold().translate(LETTERS) or text


class Overlap:
    """Compares ``parts`` with the training pairs that pass through ``watch``, without spaces at their ends."""

    def __init__(self, parts: Mapping[str, Sequence[Pair]]) -> None:
        self._parts = {part: [_sides(pair) for pair in pairs] for part, pairs in parts.items()}
        self._sources = {source for sides in self._parts.values() for source, _ in sides if source}
        self._common: dict[str, set[str]] = {}

    def watch(self, train: Iterable[Pair]) -> Iterator[Pair]:
        """Yield the training pairs, and remember those whose source a part has."""
        for pair in train:
            source = pair.source.strip()
            if source in self._sources:
                self._common.setdefault(source, set()).add(pair.target.strip())
            yield pair

    def count(self, pair_counts: Mapping[str, PairCounts]) -> None:
        """Store the counts of each part in ``pair_counts``."""
        for part, sides in self._parts.items():
            pair_counts[part].sources_in_train = sum(source in self._common for source, _ in sides)
            pair_counts[part].in_train = sum(target in self._common.get(source, ()) for source, target in sides)


def _sides(pair: Pair) -> tuple[str, str]:
    return pair.source.strip(), pair.target.strip()
