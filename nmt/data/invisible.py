"""Remove characters that nobody sees and that split or change the words of a text."""

from __future__ import annotations

import re
from typing import Literal, get_args

Invisible = Literal["bom", "all"]
BYTE_ORDER_MARK = "\ufeff"
REMOVED_WORD = "\u00a0"  # white space for tokenizers, but it does not divide words and ends no sentence
COLOUR = r"\x1b\[[0-9;]*[A-Za-z]"  # of terminals
CONTROLS = "\x00-\x08\x0e-\x1b\x7f"  # not those that tokenizers read as white space
# Soft hyphen, marks of direction, zero-width space and word joiner. The joiners U+200C and U+200D stay: Persian, Indic
# scripts and emoji need them.
OTHERS = "\u00ad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069"
PATTERNS = {
    "bom": f"{COLOUR}|[{BYTE_ORDER_MARK}{CONTROLS}]",
    "all": f"{COLOUR}|[{BYTE_ORDER_MARK}{CONTROLS}{OTHERS}]",
}
KINDS: tuple[Invisible | None, ...] = (None, *get_args(Invisible))


def remove_invisible(line: str, kind: Invisible | None) -> str:
    """Return ``line`` without control characters and byte order marks (``bom``) or any invisible character (``all``).

    A word that consists of them only becomes a no-break space, so that the other words keep their numbers. A line that
    consists of them only becomes blank. Words are divided by ASCII spaces and tabs.
    """
    if kind is None or line.isprintable() or not (pattern := re.compile(PATTERNS[kind])).search(line):
        return line
    rest = pattern.sub("", line)
    return re.sub(r"[^ \t]+", lambda word: pattern.sub("", word[0]) or REMOVED_WORD, line) if rest.strip() else rest
