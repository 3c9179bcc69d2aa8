"""Texts as lines to translate, and back: line breaks, spaces and HTML markup stay as they are."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from nmt.inference.markup import MARKUP, TAG, Fragment, untranslated_end

Format = Literal["text", "html"]
OPAQUE = {"script", "style", "pre", "textarea", "title", "svg", "math"}  # elements whose text is not translated
INLINE = frozenset(  # elements within a sentence; all others end it
    "a abbr acronym b bdi bdo big cite code data del dfn em font i img ins kbd label mark math q rb rp rt rtc ruby s "
    "samp small span strike strong sub sup time tt u var wbr".split()
)
CHARSET = re.compile(
    r"""<meta\s[^<>]*?charset\s*=\s*["']?([\w.:-]+)|<\?xml\s[^<>]*?encoding=["']([\w.:-]+)""", re.IGNORECASE
)
TITLE = re.compile(r"<title\b[^<>]*>[^<]*</title", re.IGNORECASE)  # it has no tags, so other ones are its text
LINE = re.compile(r"[^\n]*\n|[^\n]+")
EDGES = re.compile(r"([\s\ufeff]*)(.*?)(\s*)", re.DOTALL)


@dataclass(frozen=True)
class Segments:
    """The parts of a text, of which those at ``indices`` are translated."""

    parts: Sequence[str]
    indices: Sequence[int]

    @property
    def lines(self) -> list[str]:
        """The lines to translate."""
        return [self.parts[index] for index in self.indices]

    def fill(self, translations: Sequence[str]) -> str:
        """Return the text with these translations of its lines."""
        parts = [*self.parts]
        for index, translation in zip(self.indices, translations, strict=True):
            parts[index] = translation
        return "".join(parts)


def split_text(text: str, form: Format) -> Segments:
    """Return the segments of a text: its lines, or in HTML what stands between tags that end a sentence."""
    parts = list[str]()
    indices = list[int]()
    for part, is_text in _html_parts(text) if form == "html" else ((line, True) for line in LINE.findall(text)):
        before, core, after = EDGES.fullmatch(part).groups() if is_text else ("", "", part)  # type: ignore[union-attr]
        if core:
            indices.append(len(parts) + 1)
        parts += [before, core, after]
    return Segments(parts, indices)


def _html_parts(text: str) -> Iterator[tuple[str, bool]]:
    """Yield each part of an HTML text, and whether it is translated: with tags within sentences, and entities."""
    unclosed = set[str]()
    start = end = 0
    while match := MARKUP.search(text, end):
        tag = TAG.match(match[0])
        name = tag[2].lower() if tag else ""
        names = OPAQUE - {"title"} if TITLE.match(text, match.start()) else OPAQUE
        stop = untranslated_end(text, match, names, unclosed)
        end = stop or match.end()
        if name in INLINE or match[0].startswith("<!--"):
            continue
        yield _with_letters(text[start : match.start()])
        if name in OPAQUE & unclosed:  # it goes up to the end of the text
            end = len(text)
        yield text[match.start() : end], False
        start = end
    yield _with_letters(text[start:])


def visible_text(page: str) -> str:
    """Return the text of an HTML page that is translated. Other text has no markup, and stays as it is."""
    return " ".join(Fragment.read(line).plain for line in split_text(page, "html").lines)


def name_utf8(page: str) -> str:
    """Return an HTML page with the charset UTF-8 where it names another one."""

    def replace_name(match: re.Match[str]) -> str:
        start, stop = match.span(match.lastindex or 0)
        return page[match.start() : start] + "UTF-8" + page[stop : match.end()]

    return CHARSET.sub(replace_name, page)


def _with_letters(part: str) -> tuple[str, bool]:
    """Return a part of HTML, and whether a letter stands outside its tags. Models write other words for ``12.5``."""
    return part, any(map(str.isalpha, html.unescape(MARKUP.sub("", part))))
