"""Count the validation and test pairs that the training text has too. Only those parts are held in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from nmt.data.pair import Pair
from nmt.text.account import Account


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

    def count(self, accounts: Mapping[str, Account]) -> None:
        """Store the counts of each part in its account."""
        for part, sides in self._parts.items():
            accounts[part].sources_in_train = sum(source in self._common for source, _ in sides)
            accounts[part].in_train = sum(target in self._common.get(source, ()) for source, target in sides)


def _sides(pair: Pair) -> tuple[str, str]:
    return pair.source.strip(), pair.target.strip()
