"""The step for terms and placeholders: the model reads stand-ins, and the translation gets the text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from typing import NamedTuple

from nmt.data.words import Span, mapped
from nmt.inference.steps import Step, Steps
from nmt.inference.terms import Edit, EditedText, Required, write_terms
from nmt.inference.translation import Translation
from nmt.text.glossary import Glossary
from nmt.text.writing import UNSPACED, LazyPattern

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


class Protected(NamedTuple):
    """A line as the model reads it, and the text that its translation must contain."""

    text: str
    required: Sequence[Required]
    origins: Sequence[Span]
    """The part of the original line that each character of ``text`` comes from."""


def term_step(pattern: LazyPattern | None, glossary: Glossary | None) -> Step:
    """Return the step that writes the terms of a glossary, and keeps text that has the ``pattern``."""

    def step(line: str) -> Steps:
        protected = protect(line, pattern, glossary)
        [translation] = yield [protected.text]
        if not protected.text:  # nothing is left to translate
            return replace(translation, text=line.strip())
        if translation.alignment is None or not protected.required:
            return translation
        return translation.each(lambda best: complete(best, protected, line))

    return step


def complete(translation: Translation, protected: Protected, line: str) -> Translation:
    """Return a translation of protected text with all that it must contain, aligned to the ``line``."""
    written = write_terms(translation, protected.required)
    spans = [mapped(protected.origins, *span) for span in written.source_spans]
    return replace(written, source=line, source_spans=spans)


def protect(line: str, pattern: LazyPattern | None, glossary: Glossary | None) -> Protected:
    """Return a line with stand-ins for the matches of ``pattern``, and the text that its translation must contain.

    Numbers stay: models copy them, or know their words. A line with such text only becomes empty, because it needs no
    translation.
    """
    stand_ins = (number for number in map(str, count(1)) if number not in line)
    found: list[re.Match[str]] = [] if pattern is None else [*pattern.finditer(line)]
    matches = [(match, "" if match.lastgroup else next(stand_ins)) for match in found]
    edited = EditedText(line, [Edit(*match.span(), stand_in or match[0]) for match, stand_in in matches])
    text = edited.text
    required = [
        Required(start, start + len(stand_in or match[0]), match[0], stand_in)
        for start, (match, stand_in) in zip(edited.starts, matches, strict=False)  # the last one is the end
    ]
    if required and not any(
        text[at].isalnum() and not any(item.start <= at < item.stop for item in required) for at in range(len(text))
    ):
        return Protected("", [], [])
    for term in glossary.matches(text) if glossary else ():
        # Whole numbers within a term belong to it.
        others = [it for it in required if it.stand_in or it.start < term.start or term.stop < it.stop]
        if not any(item.start < term.stop and term.start < item.stop for item in others):
            required = others
            required.append(Required(term.start, term.stop, term.target, capital=term.capital))
    return Protected(text, required, edited.origins)
