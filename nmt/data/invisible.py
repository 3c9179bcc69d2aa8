"""Remove characters that nobody sees and that split or change the words of a text."""

from __future__ import annotations

import re
from typing import Literal, get_args

Invisible = Literal["bom", "all"]
BYTE_ORDER_MARK = "\ufeff"
# Soft hyphen, marks of direction, zero-width space and word joiner. The joiners U+200C and U+200D stay: Persian, Indic
# scripts and emoji need them.
OTHERS = "\u00ad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069"
PATTERNS = {"bom": re.compile(BYTE_ORDER_MARK), "all": re.compile(f"[{BYTE_ORDER_MARK}{OTHERS}]")}
KINDS: tuple[Invisible | None, ...] = (None, *get_args(Invisible))


def remove_invisible(line: str, kind: Invisible | None) -> str:
    """Return ``line`` without byte order marks (``bom``) or without all invisible characters (``all``).

    A word that consists of invisible characters only stays, so that the other words keep their numbers. A line that
    consists of them only becomes blank. Words are divided by ASCII spaces and tabs.
    """
    if kind is None or line.isascii() or not (pattern := PATTERNS[kind]).search(line):
        return line
    rest = pattern.sub("", line)
    return re.sub(r"[^ \t]+", lambda word: pattern.sub("", word[0]) or word[0], line) if rest.strip() else rest
