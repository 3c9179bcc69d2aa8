"""Files of word links: lines of ``i-j`` items (Pharaoh), or a line ``sentence i j [S|P]`` per link (NAACL).

``i-j`` is a sure link; ``ipj`` and ``i?j`` are possible ones. The NAACL format is that of Mihalcea & Pedersen (2003),
An Evaluation Exercise for Word Alignment.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from operator import index
from typing import Any, NamedTuple

from nmt.data.words import count_words
from nmt.errors import UserError, counted
from nmt.settings.arguments import brief

Link = tuple[int, int]
# At most 7 digits: a larger number is a mistake, and the number of a sentence decides how much is allocated.
PHARAOH = re.compile(r"(\d{1,7})([-p?])(\d{1,7})")
NAACL = re.compile(r"(\d{1,7})\s+(\d{1,7})\s+(\d{1,7})(?:\s+([SP]))?(?:\s+\d*\.?\d+)?")  # the last is a confidence


class Links(NamedTuple):
    """Gold links (source word, target word), counted from 0. Every sure link is also a possible one."""

    sure: frozenset[Link]
    possible: frozenset[Link]


class LinkSettings(NamedTuple):
    """How a file writes links: words are counted from ``base``.

    ``key`` is the setting that named the file: messages name ``key_base``.
    """

    base: int = 0
    key: str = "links"


PLAIN = LinkSettings()


class _Item(NamedTuple):
    """One link, and the line that it was read from. ``sentence`` is counted from 0."""

    sentence: int
    i: int
    j: int
    sure: bool
    line: int


def parse_links(
    lines: Sequence[str],
    name: str,
    settings: LinkSettings = PLAIN,
    *,
    sentences: Sequence[tuple[str, str]] | None = None,
    count: int | None = None,
) -> list[Links]:
    """Return the links of each sentence; the first line that is not blank decides the format.

    ``count`` is the number of sentences. It follows from ``sentences`` if they are given, and otherwise from the links.
    Raises UserError, which names ``name`` and the line, for a malformed link, for one outside its sentences, and for a
    wrong number of sentences.
    """
    naacl = is_naacl(lines)
    items = [*(_naacl_items if naacl else _pharaoh_items)(lines, name)]
    size = max((item.sentence + 1 for item in items), default=0) if naacl else len(lines)
    wanted = len(sentences) if sentences is not None else size if count is None else count
    if size > wanted or (size < wanted and not naacl):
        have = f"links of sentence {size:,}" if naacl else f"{counted(size, 'line')} of links"
        raise UserError(f"{name} has {have} for {counted(wanted, 'sentence')}; links and sentences must be parallel")
    sizes = [(count_words(source), count_words(target)) for source, target in sentences or ()]
    sure: dict[int, set[Link]] = defaultdict(set)
    possible: dict[int, set[Link]] = defaultdict(set)
    for item in items:
        i, j = item.i - settings.base, item.j - settings.base
        words = sizes[item.sentence] if sizes else (i + 1, j + 1)
        if not (0 <= i < words[0] and 0 <= j < words[1]):
            of = f" of {words[0]:,} and {counted(words[1], 'word')}" if sizes else ""
            problem = f"{item.i}-{item.j} points outside the sentences{of}"
            raise UserError(f"{name}:{item.line}: {problem}; check the order, and {settings.key}_base={settings.base}")
        possible[item.sentence].add((i, j))
        if item.sure:
            sure[item.sentence].add((i, j))
    return [Links(frozenset(sure.get(row, ())), frozenset(possible.get(row, ()))) for row in range(wanted)]


def is_naacl(lines: Sequence[str]) -> bool:
    """Return whether the first line that is not blank has the NAACL format."""
    return any(NAACL.fullmatch(line.strip()) for line in [line for line in lines if line.strip()][:1])


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
            gold = parse_links([item], name, count=1)[0] if isinstance(item, str) else _as_links(item)
        except (TypeError, ValueError):
            raise TypeError(f"{name}={brief(item)}: {type(item).__name__}; {what}") from None
        sizes = [count_words(side) for side in sentence]
        for i, j in gold.possible:
            if not (0 <= i < sizes[0] and 0 <= j < sizes[1]):
                raise UserError(f"{name}: ({i}, {j}) points outside the sentences; count words from 0")
        golds.append(gold)
    require_links(golds, "links")
    return golds


def _as_links(item: Any) -> Links:
    """Return links from a ``Links`` or a collection of pairs. Raises TypeError or ValueError for anything else."""
    if not isinstance(item, Links):
        item = Links(item, frozenset())
    sure, possible = (frozenset((index(i), index(j)) for i, j in links) for links in item)
    return Links(sure, sure | possible)


def _pharaoh_items(lines: Sequence[str], name: str) -> Iterator[_Item]:
    for row, line in enumerate(lines):
        for text in line.split():
            if (match := PHARAOH.fullmatch(text)) is None:
                raise UserError(f"{name}:{row + 1}: {text!r:.40}: not a link; write i-j (sure), ipj or i?j (possible)")
            yield _Item(sentence=row, i=int(match[1]), j=int(match[3]), sure=match[2] == "-", line=row + 1)


def _naacl_items(lines: Sequence[str], name: str) -> Iterator[_Item]:
    """Yield the links. Sentences are counted from 1, or from 0 if a link belongs to sentence 0."""
    items = []
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if (match := NAACL.fullmatch(text)) is not None:
            sentence, i, j = (int(word) for word in match.groups()[:3])
            items.append(_Item(sentence=sentence, i=i, j=j, sure=match[4] != "P", line=number))
        elif text:
            raise UserError(f"{name}:{number}: {text!r:.80}: not a link; write sentence i j S, or P for possible")
    first = min([1, *(item.sentence for item in items)])
    for item in items:
        yield item._replace(sentence=item.sentence - first)


def format_pharaoh(links: Iterable[Link]) -> str:
    """Return the links as ``i-j`` items, counted from 0 and sorted by source word."""
    return " ".join(f"{i}-{j}" for i, j in sorted(links))


def format_gold(links: Links) -> str:
    """Return gold links as ``i-j`` (sure) and ``ipj`` (possible) items, as ``parse_links`` reads them."""
    return " ".join(f"{i}{'-' if (i, j) in links.sure else 'p'}{j}" for i, j in sorted(links.sure | links.possible))
