"""A sentence pair and its gold word alignment."""

from __future__ import annotations

from typing import NamedTuple

from nmt.data.links import Link


class Pair(NamedTuple):
    """A sentence and its translation.

    ``links`` are the sure gold links (source word, target word), or None if the pair has no gold alignment.
    ``possible`` are links that are not sure but count as correct. Words are those of ``split_words``, counted from 0.
    """

    source: str
    target: str
    links: tuple[Link, ...] | None = None
    possible: tuple[Link, ...] = ()


class MissingPair(Pair):
    """A pair of which a text is missing in its table. Its sides are empty; preparing drops and counts it."""

    __slots__ = ()
