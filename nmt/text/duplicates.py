"""Repeated pairs: drop copies in the training part, and count test pairs that the training part has too."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b

from nmt.data.filters import Duplicates
from nmt.data.pair import Pair
from nmt.text.coverage import PairCounts


def without_duplicates(pairs: Iterable[Pair], kind: Duplicates | None, counts: PairCounts) -> Iterator[Pair]:
    """Yield the pairs without later copies of the same pair, and count the copies in ``counts``.

    ``near`` compares only the letters of both sides, without case. Two different pairs are taken for copies if their
    64-bit hashes are equal: among 50 million pairs the probability is below 1 in 10,000.
    """
    seen = set[bytes]()
    for pair in pairs:
        if kind is not None and pair.source.strip() and pair.target.strip():  # empty sides have their own count
            digest = _hash(pair, kind)
            if digest in seen:
                counts.dropped["duplicate" if kind == "exact" else "near duplicate"] += 1
                continue
            seen.add(digest)
        yield pair


def _hash(pair: Pair, kind: Duplicates) -> bytes:
    sides = pair[:2] if kind == "exact" else (_letters(pair.source), _letters(pair.target))
    text = f"{len(sides[0])} {sides[0]}{sides[1]}"
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()


def _letters(text: str) -> str:
    """Return the letters of the text in one case; a text without letters stays as it is."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return "".join(character for character in folded if unicodedata.category(character)[0] in "LM") or text


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
