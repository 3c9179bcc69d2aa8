"""Protected text of a line: replace it before the model reads the line, and write it into the translation."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

from nmt.data.words import PieceWords, overlapping, word_positions, word_spans
from nmt.inference.markup import NOTE, Tag, fragment_parts, place_tags
from nmt.inference.terms import Edit, EditedText, Required
from nmt.inference.translation import Translation
from nmt.text.glossary import Glossary
from nmt.text.writing import UNSPACED, WITHOUT_BLANKS, LazyPattern

AFTER_ADDRESS = r"\u3001-\u3003\u3008-\u301f\uff01-\uff1f"  # marks of Chinese and Japanese, which need no spaces
LETTER = rf"[^\W{UNSPACED.pattern[1:-1]}]"
ADDRESS = rf"(?<![a-zA-Z0-9_])(?:https?://|www\.)[^\s<>\"'`{AFTER_ADDRESS}]*[\w/]"
# No pattern reads far ahead from every start, so hostile lines take linear time.
PLACEHOLDER = LazyPattern(
    r"""
    [\U000f0000-\U000fffff]                                        # for private use, such as an element of HTML
  | `[^`]+`                                                        # code
  | ADDRESS
  | (?<![.+-])(?<!LETTER)(?:[.+-]|LETTER){1,64}@(?:-|LETTER){1,64}(?:\.(?:-|LETTER){1,64})+  # an e-mail address
  | \$?(?<!\{)\{{1,2}[^{}\s]{0,100}\}{1,2}                         # a field of Python, JavaScript, …
  | (?<!\d)%(?:\(\w{1,100}\)|\d{1,3}\$)?[-+\#0]{0,3}\d{0,3}(?:\.\d{1,3})?[sdiufgxXeEcr@](?![a-zA-Z]{2})  # of printf
  | &(?:[a-zA-Z]{1,30}|\#\d{1,7}|\#x[0-9a-fA-F]{1,6});             # a character of HTML
  | (?P<number>(?<!\w)(?<!\d[.,:٫٬])\d+(?:[.,:٫٬/-]\d+)*(?!\w))
    """.replace("ADDRESS", ADDRESS).replace("LETTER", LETTER),
    re.VERBOSE,
)
ELEMENT = LazyPattern("[\U000f0000-\U000fffff]")


@dataclass(frozen=True)
class Protected:
    """A line as the model reads it, and the text that its translation must contain."""

    text: str
    required: Sequence[Required]
    origins: Sequence[tuple[int, int]]
    """The part of the original line that each character of ``text`` comes from."""

    line: str
    """The original line."""

    def complete(self, translation: Translation) -> Translation:
        """Return a translation of ``text``, which has all required text, aligned to words of the original line."""
        if not self.text:
            return replace(translation, text=self.line.strip())
        if self.text == self.line:
            return translation
        originals = word_positions(self.line)
        words = [
            overlapping(originals, self.origins[start][0], self.origins[stop - 1][1])
            for start, stop in word_positions(self.text)
        ]
        source_words = PieceWords.of(
            (words[first].start, words[last].stop - 1) if first >= 0 else (-1, -1)
            for first, last in word_spans(translation.source_words)
        )
        return replace(translation, source_words=source_words)


@dataclass(frozen=True, kw_only=True)
class Fragment(Protected):
    """A ``fragment`` of HTML: ``line`` is its text, with a stand-in for each of the untranslated ``elements``."""

    fragment: str
    tags: Sequence[Tag]
    elements: Mapping[str, str]

    def complete(self, translation: Translation) -> Translation:
        """Return a translation of ``text`` as HTML, with all tags and elements, and without an alignment."""
        translation = super().complete(translation)
        if translation.alignment is None:  # nothing was translated
            return replace(translation, text=self.fragment.strip())
        text = ""
        end = 0
        for position, tag in place_tags(translation, self.line, self.tags):
            text += html.escape(translation.text[end:position], quote=False) + tag
            end = position
        text += html.escape(translation.text[end:], quote=False)
        for stand_in, element in self.elements.items():
            text = text.replace(stand_in, element)
        return replace(translation.without_alignment(), text=text)


@dataclass(frozen=True)
class Protection:
    """Finds the terms of a glossary in a line and, with ``placeholders``, the text that must not be translated."""

    glossary: Glossary | None
    placeholders: bool
    markup: bool = False
    """Whether lines are HTML."""

    def protect(self, line: str) -> Protected:
        """Return a line as the model reads it, and the text that its translation must contain."""
        if not self.markup:
            return self._protect(line)
        text = ""
        tags = list[Tag]()
        elements = dict[str, str]()
        unused = (chr(number) for number in count(0xF0000) if chr(number) not in line)
        for part in fragment_parts(line):
            if part.kind == "tag":
                is_image = (
                    not part.name and not part.text.lower().startswith(("<!", "<wbr")) and not NOTE.match(part.text)
                )
                if is_image and text and not (text[-1].isspace() or WITHOUT_BLANKS.match(text[-1])):
                    text += " "  # between two words
                tags.append(Tag(len(text), part.text, part.name))
            elif part.kind == "opaque":
                elements[stand_in := next(unused)] = part.text
                text += stand_in
            else:
                text += part.text
        return Fragment(**vars(self._protect(text)), fragment=line, tags=tags, elements=elements)

    def _protect(self, line: str) -> Protected:
        """Return a line with stand-ins for placeholders, and the text that its translation must contain.

        Numbers stay: models copy them, or know their words. A line with placeholders only becomes empty, because it
        needs no translation.
        """
        pattern = PLACEHOLDER if self.placeholders else ELEMENT
        changes = self.placeholders or self.markup
        if self.glossary is None and not (changes and pattern.search(line)):  # most lines
            return Protected(line, [], [], line)
        stand_ins = (number for number in map(str, count(1)) if number not in line)
        matches = [(match, "" if match.lastgroup else next(stand_ins)) for match in pattern.finditer(line)]
        edited = EditedText(line, [Edit(m.start(), m.end(), stand_in or m[0]) for m, stand_in in matches])
        text = edited.text
        required = [
            Required(start, start + len(stand_in or match[0]), match[0], stand_in)
            for start, (match, stand_in) in zip(edited.starts, matches, strict=False)  # the last one is the end
        ]
        if required and not any(
            text[at].isalnum() and not any(item.start <= at < item.stop for item in required) for at in range(len(text))
        ):
            return Protected("", [], [], line)  # nothing is left to translate
        for term in self.glossary.matches(text) if self.glossary else ():
            # Whole numbers within a term belong to it.
            others = [it for it in required if it.stand_in or it.start < term.start or term.stop < it.stop]
            if not any(item.start < term.stop and term.start < item.stop for item in others):
                required = others
                required.append(Required(term.start, term.stop, term.target, capital=term.capital))
        return Protected(text, required, edited.origins, line)
