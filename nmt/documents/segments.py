"""Texts as lines to translate, and back: line breaks, spaces and HTML markup stay as they are."""

from __future__ import annotations

import html
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from nmt.errors import UserError, print_message
from nmt.files.compression import shell_name
from nmt.inference.markup import MARKUP, TAG, untranslated_end

Format = Literal["text", "html"]
OPAQUE = {"script", "style", "pre", "textarea", "title", "svg", "math"}  # elements whose text is not translated
INLINE = frozenset(  # elements within a sentence; all others end it
    "a abbr acronym b bdi bdo big cite code data del dfn em font i img ins kbd label mark math q rb rp rt rtc ruby s "
    "samp small span strike strong sub sup time tt u var wbr".split()
)
CHARSET = re.compile(
    r"""<meta\s[^<>]*?charset\s*=\s*["']?([\w.:-]+)|<\?xml\s[^<>]*?encoding=["']([\w.:-]+)""", re.IGNORECASE
)
WHOLE_PAGE = re.compile(r"<(?:html|body)\b", re.IGNORECASE)
DIRECTION = re.compile(r"<(?:html|body)\s[^<>]*?\bdir\s*=\s*[\"']?(rtl|ltr)|\bdirection\s*:\s*(rtl|ltr)", re.IGNORECASE)
LINE = re.compile(r"[^\n]*\n|[^\n]+")
EDGES = re.compile(r"(\s*)(.*?)(\s*)", re.DOTALL)


@dataclass(frozen=True)
class Segments:
    """The parts of a text, of which those at ``indices`` are translated."""

    parts: Sequence[str]
    indices: Sequence[int]
    finish: Callable[[str], str] = str
    """Change a translation before it is written."""

    @property
    def lines(self) -> list[str]:
        """The lines to translate."""
        return [self.parts[index] for index in self.indices]

    def fill(self, translations: Sequence[str]) -> str:
        """Return the text with these translations of its lines."""
        parts = [*self.parts]
        for index, translation in zip(self.indices, translations, strict=True):
            parts[index] = self.finish(translation)
        return "".join(parts)


def split_text(text: str, form: Format) -> Segments:
    """Return the segments of a text: its lines, or in HTML what stands between tags that end a sentence."""
    parts = list[str]()
    indices = list[int]()
    for part, is_text in _html_parts(text) if form == "html" else _lines(text):
        before, core, after = EDGES.fullmatch(part).groups() if is_text else ("", "", part)  # type: ignore[union-attr]
        if core:
            indices.append(len(parts) + 1)
        parts += [before, core, after]
    return Segments(parts, indices)


def _lines(text: str) -> Iterator[tuple[str, bool]]:
    for line in LINE.findall(text):
        yield line, True


def _html_parts(text: str) -> Iterator[tuple[str, bool]]:
    """Yield each part of an HTML text, and whether it is translated: with tags within sentences, and entities."""
    unclosed = set[str]()
    start = end = 0
    while match := MARKUP.search(text, end):
        tag = TAG.match(match[0])
        name = tag[2].lower() if tag else ""
        stop = untranslated_end(text, match, OPAQUE, unclosed)
        end = stop or match.end()
        if name in INLINE or match[0].startswith("<!--"):
            continue
        yield _sentence(text[start : match.start()])
        if name in OPAQUE & unclosed:  # it goes up to the end of the text
            end = len(text)
        yield text[match.start() : end], False
        start = end
    yield _sentence(text[start:])


def name_utf8(page: str, name: str) -> str:
    """Return an HTML page, which was read as UTF-8, with this charset where it names another one, and say so.

    Raises UserError if the page is ASCII text that means something else in its charset, as in ISO-2022-JP.
    """
    changed = list[str]()

    def replace_name(match: re.Match[str]) -> str:
        charset = match[1] or match[2]
        if charset.lower() in ("utf-8", "utf8"):
            return match[0]
        changed.append(charset)
        start, stop = match.span(match.lastindex or 0)
        return page[match.start() : start] + "UTF-8" + page[stop : match.end()]

    named = CHARSET.sub(replace_name, page)
    for charset in dict.fromkeys(changed):
        if page.isascii() and not _is_ascii_in(page, charset):
            fix = f"convert it: iconv -f {charset} -t UTF-8 {shell_name(name)} > NEW; and write charset=utf-8 there"
            raise UserError(f"{name}: charset={charset}: the page must name UTF-8; {fix}")
        print_message(f"{name}: charset={charset}: the output is UTF-8, and names charset=UTF-8")
    return named


def direction_problem(page: str, translations: Sequence[str]) -> str | None:
    """Return a warning if an HTML page is shown in the other direction than its translations are written in."""
    text = html.unescape(MARKUP.sub("", " ".join(translations)))
    classes = Counter(map(unicodedata.bidirectional, text))
    needed = "rtl" if classes["R"] + classes["AL"] > classes["L"] else "ltr"
    match = DIRECTION.search(page)
    named = (match[1] or match[2]).lower() if match else "ltr"
    if needed == named or not WHOLE_PAGE.search(page) or not classes["R"] + classes["AL"] + classes["L"]:
        return None
    way = "from right to left" if needed == "rtl" else "from left to right"
    return f'its translation is written {way}; write <html dir="{needed}"> into it'


def _is_ascii_in(page: str, charset: str) -> bool:
    try:
        return page.encode().decode(charset) == page
    except (LookupError, ValueError):  # an unknown charset, or bytes that it does not have
        return False


def _sentence(part: str) -> tuple[str, bool]:
    return part, has_letters(part)


def has_letters(line: str) -> bool:
    """Return whether a line of HTML has a letter outside its tags. Models write other words for ``♪`` or ``12.5``."""
    return any(map(str.isalpha, html.unescape(MARKUP.sub("", line))))
