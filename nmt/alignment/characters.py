"""What a picture or a page can show of any text."""

from __future__ import annotations

import re

# https://www.w3.org/TR/xml/#NT-Char; of these, SVG cannot hold even an escaped one.
FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def showable(text: str) -> str:
    """The text with U+FFFD for each character that XML forbids: most control characters, lone surrogates, U+FFFE."""
    return FORBIDDEN.sub("\ufffd", text)
