"""Text in pictures and pages: characters that SVG and HTML files cannot hold, and labels that are readable."""

from __future__ import annotations

import re
import unicodedata
from itertools import groupby

MAX_LABEL_LENGTH = 40  # characters
MAX_MARKS = 4  # combining marks on one letter; more would reach into the next label
# https://www.w3.org/TR/xml/#NT-Char: SVG cannot hold these characters, not even escaped.
FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# Line breaks, tabs and other control characters, and the marks that change the direction of the text around them.
LAYOUT = re.compile("[\t\n\r\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Cn", "Zs", "Zl", "Zp"})  # Unicode categories


def xml_safe(text: str) -> str:
    """Return the text with U+FFFD for each character that XML forbids.

    These are most control characters, lone surrogates, U+FFFE and U+FFFF.
    """
    return FORBIDDEN.sub("\ufffd", text)


def is_visible(character: str) -> bool:
    """Return whether a font draws something for the character."""
    variation_selector = "\ufe00" <= character <= "\ufe0f"
    return unicodedata.category(character) not in INVISIBLE and not variation_selector


def short_label(token: str) -> str:
    """Return a token as one short line that can be read and that stays inside its own place.

    A token of invisible characters is written as their numbers, such as ``U+200B``. Characters that break lines or turn
    the direction of text are U+FFFD. Letters keep ``MAX_MARKS`` marks, and labels ``MAX_LABEL_LENGTH`` characters.
    """
    head = token[: 16 * MAX_LABEL_LENGTH]  # a token can have millions of characters
    if not any(is_visible(character) or character in "\ufffd" for character in head):
        text = " ".join(f"U+{ord(character):04X}" for character in head)
    else:
        text = "".join(
            "".join(list(run)[: MAX_MARKS if mark else None])
            for mark, run in groupby(LAYOUT.sub("\ufffd", xml_safe(head)), key=_is_mark)
        )
    return text if len(text) <= MAX_LABEL_LENGTH else text[: MAX_LABEL_LENGTH - 1] + "…"


def _is_mark(character: str) -> bool:
    return unicodedata.category(character) in ("Mn", "Me")
