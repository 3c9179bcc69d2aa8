"""Sentence pairs, and files of word links: one line of ``i-j`` items (Pharaoh) for each pair.

i counts source words and j target words, from 0. ``i-j`` is a sure link; ``ipj`` and ``i?j`` are possible ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from operator import index
from typing import Any, NamedTuple

from nmt.data.words import count_words
from nmt.errors import UserError, counted
from nmt.settings.arguments import brief

Link = tuple[int, int]
PHARAOH = re.compile(r"(\d{1,7})([-p?])(\d{1,7})")


class Links(NamedTuple):
    """Gold links (source word, target word), counted from 0. Every sure link is also a possible one."""

    sure: frozenset[Link]
    possible: frozenset[Link]


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


def parse_links(lines: Sequence[str], name: str, sentences: Sequence[tuple[str, str]] | None = None) -> list[Links]:
    """Return the links of each line.

    Raises UserError, which names ``name`` and the line, for a malformed link, for one outside its sentences, and for
    another number of lines than ``sentences``, if they are given.
    """
    if sentences is not None and len(lines) != len(sentences):
        have = f"{counted(len(lines), 'line')} of links for {counted(len(sentences), 'sentence')}"
        raise UserError(f"{name} has {have}; links and sentences must be parallel")
    golds = []
    for row, line in enumerate(lines):
        gold = _parse_line(line, place := f"{name}:{row + 1}")
        if sentences is not None:
            require_inside(gold, sentences[row], place)
        golds.append(gold)
    return golds


def _parse_line(line: str, place: str) -> Links:
    """Return the links of a line. Raises UserError for a malformed one."""
    sure, possible = set(), set()
    for text in line.split():
        if (match := PHARAOH.fullmatch(text)) is None:
            raise UserError(f"{place}: {text!r:.40}: not a link; write i-j (sure), ipj or i?j (possible)")
        possible.add(link := (int(match[1]), int(match[3])))
        if match[2] == "-":
            sure.add(link)
    return Links(frozenset(sure), frozenset(possible))


def require_inside(gold: Links, sentence: tuple[str, str], place: str) -> None:
    """Raise UserError for a link to a word that the sentence pair does not have."""
    source, target = map(count_words, sentence)
    for i, j in sorted(gold.possible):
        if not (0 <= i < source and 0 <= j < target):
            of = f"{source:,} and {counted(target, 'word')}"
            raise UserError(f"{place}: {i}-{j} points outside the sentences of {of}; count words from 0, source first")


def require_links(golds: Sequence[Links], name: str) -> None:
    """Raise UserError if no sentence has a gold link: nothing would be scored."""
    if golds and not any(gold.possible for gold in golds):
        raise UserError(f"{name}: no links in {counted(len(golds), 'line')}; give gold links, one line per pair")


def links_from_python(links: Any, sentences: Sequence[tuple[str, str]]) -> list[Links]:
    """Return gold links that a program gives: one item per sentence pair.

    An item is a ``Links``, a collection of sure links (source word, target word) from 0, or a line in Pharaoh format.
    Raises TypeError for anything else, and UserError for a link outside its sentences or another number of items.
    """
    what = "give one set of (source word, target word) per pair, such as [{(0, 0), (1, 2)}]"
    if isinstance(links, str | bytes) or not isinstance(links, Iterable):
        raise TypeError(f"links={brief(links)}: {type(links).__name__}; {what}")
    items = list(links)
    if len(items) != len(sentences):
        raise UserError(f"links: {counted(len(items), 'item')} for {counted(len(sentences), 'sentence')}; {what}")
    golds = []
    for row, (item, sentence) in enumerate(zip(items, sentences, strict=True)):
        name = f"links[{row}]"
        try:
            gold = (
                _parse_line(item, name)
                if isinstance(item, str)
                else as_links(item if isinstance(item, Links) else (item, ()))
            )
        except (TypeError, ValueError):
            raise TypeError(f"{name}={brief(item)}: {type(item).__name__}; {what}") from None
        require_inside(gold, sentence, name)
        golds.append(gold)
    require_links(golds, "links")
    return golds


def as_links(sides: Iterable[Any]) -> Links:
    """Return links from collections of sure and possible pairs. Raises TypeError or ValueError for anything else."""
    sure, possible = (frozenset((index(i), index(j)) for i, j in links) for links in sides)
    return Links(sure, sure | possible)


def format_pharaoh(links: Iterable[Link]) -> str:
    """Return the links as ``i-j`` items, counted from 0 and sorted by source word."""
    return " ".join(f"{i}-{j}" for i, j in sorted(links))


def format_gold(links: Links) -> str:
    """Return gold links as ``i-j`` (sure) and ``ipj`` (possible) items, as ``parse_links`` reads them."""
    return " ".join(f"{i}{'-' if (i, j) in links.sure else 'p'}{j}" for i, j in sorted(links.sure | links.possible))
