"""Texts as lines to translate, and back: line breaks, spaces and HTML markup stay as they are."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

Format = Literal["text", "html"]
# A comment, which may lack its end, a declaration, or a tag, whose quoted attributes may hold ">".
MARKUP = re.compile(r"<!--.*?(?:-->|\Z)|<(?=[a-zA-Z/!?])(?:[^<>\"']|\"[^\"]*\"|'[^']*')*>", re.DOTALL)
TAG = re.compile(r"<(/?)([a-zA-Z][\w:-]*)")
OPAQUE = {"script", "style", "code", "pre", "textarea", "title"}  # elements whose text is not translated
SPACES = re.compile(r"[ \t\r\n\f]+")  # as HTML reads them
LINE = re.compile(r"[^\n]*\n|[^\n]+")
EDGES = re.compile(r"(\s*)(.*?)(\s*)", re.DOTALL)


@dataclass(frozen=True)
class Segments:
    """The parts of a text, of which those at ``places`` are translated."""

    parts: Sequence[str]
    places: Sequence[int]
    escape: Callable[[str], str] = str

    @property
    def lines(self) -> list[str]:
        """The lines to translate."""
        return [self.parts[place] for place in self.places]

    def fill(self, translations: Sequence[str]) -> str:
        """Return the text with these translations of its lines."""
        parts = [*self.parts]
        for place, translation in zip(self.places, translations, strict=True):
            parts[place] = self.escape(translation)
        return "".join(parts)


def split_text(text: str, form: Format) -> Segments:
    """Return the segments of a text. In HTML, each stretch of text between two tags is translated on its own."""
    parts = list[str]()
    places = list[int]()
    for part, is_text in _html_parts(text) if form == "html" else _lines(text):
        before, core, after = EDGES.fullmatch(part).groups() if is_text else ("", "", part)  # type: ignore[union-attr]
        if core:
            places.append(len(parts) + 1)
        parts += [before, core, after]
    return Segments(parts, places, _escape if form == "html" else str)


def _lines(text: str) -> Iterator[tuple[str, bool]]:
    for line in LINE.findall(text):
        yield line, True


def _html_parts(text: str) -> Iterator[tuple[str, bool]]:
    """Yield each part of an HTML text, and whether it is text to translate, without entities."""
    end = 0
    opaque = ""  # the element whose end is awaited
    for match in MARKUP.finditer(text):
        if match.start() > end:
            yield from _text(text[end : match.start()], opaque)
        yield match[0], False
        end = match.end()
        if tag := TAG.match(match[0]):
            name = tag[2].lower()
            if not opaque and not tag[1] and name in OPAQUE:
                opaque = name
            elif tag[1] and name == opaque:
                opaque = ""
    yield from _text(text[end:], opaque)


def _text(part: str, opaque: str) -> Iterator[tuple[str, bool]]:
    if opaque:
        yield part, False
    else:
        yield " ".join(SPACES.split(html.unescape(part))), True


def _escape(text: str) -> str:
    return html.escape(text, quote=False)
