"""Characters that SVG and HTML files cannot hold."""

from __future__ import annotations

import re

# https://www.w3.org/TR/xml/#NT-Char: SVG cannot hold these characters, not even escaped.
FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def xml_safe(text: str) -> str:
    """Return the text with U+FFFD for each character that XML forbids.

    These are most control characters, lone surrogates, U+FFFE and U+FFFF.
    """
    return FORBIDDEN.sub("\ufffd", text)
