"""Word links in Pharaoh's notation: ``i-j`` is a sure link, ``ipj`` a possible one."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, NamedTuple

from nmt.errors import UserError
from nmt.text.files import read_lines

Link = tuple[int, int]
LINK = re.compile(r"(\d+)([-p])(\d+)")


class Links(NamedTuple):
    """Gold links (source word, target word), counted from 0; every sure link is possible too."""

    sure: frozenset[Link]
    possible: frozenset[Link]


def parse_pharaoh(line: str, *, base: Literal[0, 1] = 0, place: str = "links") -> Links:
    """The links of one line whose words are counted from ``base``. Raises UserError naming ``place``."""
    sure, possible = set(), set()
    for token in line.split():
        found = LINK.fullmatch(token)
        if found is None:
            raise UserError(f"{place}: {token!r} is no link; write i-j (sure) or ipj (possible)")
        link = (int(found[1]) - base, int(found[3]) - base)
        if min(link) < 0:
            raise UserError(f"{place}: {token!r} counts from 0, not from 1; set links_base=0")
        possible.add(link)
        if found[2] == "-":
            sure.add(link)
    return Links(frozenset(sure), frozenset(possible))


def format_pharaoh(links: Iterable[Link]) -> str:
    """``i-j`` items counted from 0, in source order."""
    return " ".join(f"{i}-{j}" for i, j in sorted(links))


def read_gold(path: str | Path, *, base: Literal[0, 1] = 0) -> list[Links]:
    """The gold links of a file, one line a sentence. Raises UserError naming the line."""
    return [parse_pharaoh(line, base=base, place=f"{path}:{n}") for n, line in enumerate(read_lines(path), start=1)]


def check_links(links: Links, source_words: int, target_words: int, *, place: str) -> None:
    """Raises UserError where a link points outside its sentence: most often, the index base is wrong."""
    for i, j in sorted(links.possible):
        if i >= source_words or j >= target_words:
            raise UserError(
                f"{place}: link {i}-{j} (from 0) is outside a sentence of {source_words} and {target_words} words; "
                "is links_base right?"
            )
