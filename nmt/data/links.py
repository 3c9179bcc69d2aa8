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

from nmt.data.words import count_words, split_words
from nmt.errors import UserError, counted
from nmt.settings.arguments import brief

Link = tuple[int, int]
# At most 7 digits: a larger number is a mistake, and the number of a sentence decides how much is allocated.
# NAACL lines may end with a confidence.
PHARAOH = re.compile(r"(\d{1,7})([-p?])(\d{1,7})")
WEIGHTED = re.compile(r"(\d{1,7}[-p?]\d{1,7})[-:/,](\d*\.?\d+(?:[eE][-+]?\d+)?)")
A3 = re.compile(r"# Sentence pair \(\d+\)|.*\(\{[ \d]*\}\)")  # of GIZA++
NAACL = re.compile(r"(\d{1,7})\s+(\d{1,7})\s+(\d{1,7})(?:\s+([SP]))?(?:\s+\d*\.?\d+)?")


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
SWAPPED = "sides look swapped; write the number of the source word first"


class _Item(NamedTuple):
    """One link, and the line and the text that it was read from. ``sentence`` is counted from 0."""

    sentence: int
    link: Link
    sure: bool
    line: int
    text: str


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
    words = [(item, _from_zero(item, name, settings)) for item in items]
    if sentences is not None:
        _check_bounds(words, sentences, name, settings)
    sure: dict[int, set[Link]] = defaultdict(set)
    possible: dict[int, set[Link]] = defaultdict(set)
    for item, link in words:
        possible[item.sentence].add(link)
        if item.sure:
            sure[item.sentence].add(link)
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
        for i, j in sorted(gold.sure | gold.possible):
            if not (0 <= i < sizes[0] and 0 <= j < sizes[1]):
                texts = f"{sizes[0]:,} and {counted(sizes[1], 'word')}"
                raise UserError(f"{name}: ({i}, {j}) points outside the sentences of {texts}; count words from 0")
        golds.append(gold)
    require_links(golds, "links")
    return golds


def _as_links(item: Any) -> Links:
    """Return links from a ``Links`` or a collection of pairs. Raises TypeError or ValueError for anything else."""
    if not isinstance(item, Links):
        item = Links(item, frozenset())
    sure, possible = (frozenset((index(i), index(j)) for i, j in links) for links in item)
    return Links(sure, sure | possible)


def links_of_first(lines: Sequence[str], count: int) -> list[str]:
    """Return the lines for the first ``count`` sentences. In the NAACL format, lines for others become empty."""
    if not is_naacl(lines):
        return list(lines[:count])
    numbers = [int(match[1]) if (match := NAACL.fullmatch(line.strip())) else None for line in lines]
    beyond = count + min([1, *(number for number in numbers if number is not None)])
    pairs = zip(lines, numbers, strict=True)
    return ["" if number is not None and number >= beyond else line for line, number in pairs]


def _pharaoh_items(lines: Sequence[str], name: str) -> Iterator[_Item]:
    for row, line in enumerate(lines):
        for text in line.split():
            match = PHARAOH.fullmatch(text)
            if match is None:
                raise UserError(f"{name}:{row + 1}: {_not_a_link(text, line)}")
            link = (int(match[1]), int(match[3]))
            yield _Item(sentence=row, link=link, sure=match[2] == "-", line=row + 1, text=text)


def _not_a_link(text: str, line: str) -> str:
    if A3.match(line):
        return f"{line!r:.40}: alignments of GIZA++ (A3); convert the file to links i-j"
    if text == "|||":
        return "'|||': a score after the links; remove the scores, as fast_align writes them without -s"
    if weighted := WEIGHTED.fullmatch(text):
        return f"{text!r:.40}: a link with a weight; remove the weights, so that it reads {weighted[1]}"
    return f"{text!r:.40}: not a link; write i-j (sure), ipj or i?j (possible)"


def _naacl_items(lines: Sequence[str], name: str) -> Iterator[_Item]:
    """Yield the links. Sentences are counted from 1, or from 0 if a link belongs to sentence 0."""
    items = []
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        match = NAACL.fullmatch(text)
        if match is not None:
            sentence = int(match[1])
            sure = match[4] != "P"
            link = (int(match[2]), int(match[3]))
            items.append(_Item(sentence=sentence, link=link, sure=sure, line=number, text=text))
        elif text:
            raise UserError(f"{name}:{number}: {text!r:.80}: not a link; write sentence i j S, or P for possible")
    first = min([1, *(item.sentence for item in items)])
    for item in items:
        yield item._replace(sentence=item.sentence - first)


def _from_zero(item: _Item, name: str, settings: LinkSettings) -> Link:
    """Return the link (source word, target word), counted from 0."""
    i, j = (word - settings.base for word in item.link)
    if min(i, j) < 0:
        raise UserError(
            f"{name}:{item.line}: {item.text!r} counts words from 0, not from {settings.base};"
            f" set {settings.key}_base=0"
        )
    return i, j


def _check_bounds(
    links: Sequence[tuple[_Item, Link]], sentences: Sequence[tuple[str, str]], name: str, settings: LinkSettings
) -> None:
    """Raise UserError for the first link outside its sentences, with the reading under which all links fit."""
    sizes = [(count_words(source), count_words(target)) for source, target in sentences]

    def fits(item: _Item, i: int, j: int) -> bool:
        return 0 <= i < sizes[item.sentence][0] and 0 <= j < sizes[item.sentence][1]

    outside = next((item for item, (i, j) in links if not fits(item, i, j)), None)
    if outside is None:
        return
    advice = f"check {settings.key}_base={settings.base}"
    if settings.base == 0 and all(fits(item, i - 1, j - 1) for item, (i, j) in links):
        advice = f"words look counted from 1; set {settings.key}_base=1"
    elif all(fits(item, j, i) for item, (i, j) in links):
        advice = SWAPPED
    elif any(side.split() != split_words(side) for side in sentences[outside.sentence]):
        advice = "only spaces and tabs end words; replace other whitespace in the text, such as U+00A0"
    first, second = sizes[outside.sentence]
    raise UserError(
        f"{name}:{outside.line}: {outside.text} points outside the sentences of {first:,} and"
        f" {counted(second, 'word')}; {advice}"
    )


def format_pharaoh(links: Iterable[Link]) -> str:
    """Return the links as ``i-j`` items, counted from 0 and sorted by source word."""
    return " ".join(f"{i}-{j}" for i, j in sorted(links))


def format_gold(links: Links) -> str:
    """Return gold links as ``i-j`` (sure) and ``ipj`` (possible) items, as ``parse_links`` reads them."""
    return " ".join(f"{i}{'-' if (i, j) in links.sure else 'p'}{j}" for i, j in sorted(links.sure | links.possible))
