"""Word links in Pharaoh's notation: ``i-j`` is a sure link, ``ipj`` a possible one."""

from __future__ import annotations

import re
from typing import NamedTuple

from nmt.errors import UserError

Link = tuple[int, int]
LINK = re.compile(r"(\d+)([-p])(\d+)")


class Links(NamedTuple):
    """Gold links (source word, target word), counted from 0. Every sure link is also a possible one."""

    sure: frozenset[Link]
    possible: frozenset[Link]


def parse_pharaoh(line: str, *, base: int = 0, place: str = "links", sentences: tuple[str, str] | None = None) -> Links:
    """Return the links of one line, whose words are counted from ``base``.

    Raises UserError, which names ``place``, for a malformed link or one outside the ``sentences`` (if given).
    """
    sizes = None if sentences is None else tuple(len(sentence.split()) for sentence in sentences)
    sure, possible = set(), set()
    for token in line.split():
        match = LINK.fullmatch(token)
        if match is None:
            raise UserError(f"{place}: {token!r}: not a link; write i-j (sure) or ipj (possible)")
        link = (int(match[1]) - base, int(match[3]) - base)
        if min(link) < 0:
            raise UserError(f"{place}: {token!r} counts words from 0, not from {base}; set links_base=0")
        if sizes is not None and not (link[0] < sizes[0] and link[1] < sizes[1]):
            raise UserError(
                f"{place}: {token} points outside the sentences of {sizes[0]} and {sizes[1]} words;"
                f" check links_base={base}"
            )
        possible.add(link)
        if match[2] == "-":
            sure.add(link)
    return Links(frozenset(sure), frozenset(possible))
