"""Sentences of a text. The package sentencex finds their ends, by rules and abbreviations of the language."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import accumulate

from nmt.data.words import Span
from nmt.errors import UserError
from nmt.text.writing import LazyPattern

AUTO = "auto"
"""The language of a text whose language is unknown."""
# The rules of all these languages have to agree on an end if the language is unknown. Those of the first four expect a
# capital behind it. Others are missing: they take far more time, or miss many ends of other languages.
AGREED = ("de", "fi", "kk", "sk", "bg", "el", "en", "es", "fr", "pl", "pt", "ru", "uk")
EXPECT_CAPITALS = 4
MARK = re.compile(r"[^\w \t,'\"()-]")  # a character that may end a sentence; all that do are among these
SPACE = LazyPattern(r"[\s\ud800-\udfff]")  # and lone surrogates, which sentencex refuses
# Not an end: a full stop of a quotation that Japanese or Korean goes on after
NO_END = LazyPattern('[.。！？!?](?=["”’」』]+[ぁ-ゖ가-힣])')

Splitter = Callable[[str, Sequence[Span]], Sequence[Span]]


def splitter(language: str) -> Splitter:
    """Return the function that finds the sentences of a text in this language, a code such as ``pt-BR`` or ``AUTO``.

    It takes the text and the spans that no sentence may cut, and returns start and end of each sentence, without the
    blanks around them. A text with at most one sentence has one span, all of it. A line break ends a sentence. A part
    without letters, such as ``1.``, belongs to the next sentence, or at the end of a line to the one before. Raises
    UserError if sentencex is not installed.
    """
    try:
        from sentencex import segment
    except ImportError:
        fix = "install it with pip install sentencex, or set search.sentences=null"
        raise UserError(f"search.sentences={language}: the package sentencex is not installed; {fix}") from None

    def ends(line: str) -> set[int]:
        # Other blanks can end sentencex 1.0.32 with a panic, which shows the text on stderr.
        line = NO_END.sub("0", SPACE.sub(" ", line))
        agreed = AGREED[EXPECT_CAPITALS * (line == line.lower()) :]
        codes = agreed if language == AUTO else [re.split("[-_]", language)[0].lower()]
        return set.intersection(*({*accumulate(map(len, segment(code, line)))} for code in codes))

    def split(text: str, kept: Sequence[Span]) -> Sequence[Span]:
        mark = MARK.search(text)
        # Most lines need no rules, which would take longer.
        if mark is None or not (_has_letters(text[mark.end() :]) or text.splitlines()[1:]):
            return [(0, len(text))]
        inside = {at for first, last in kept for at in range(first + 1, last)}
        spans = list[Span]()
        start = offset = 0
        for line in text.splitlines(keepends=True):
            before = len(spans)
            for end in sorted({offset + end for end in ends(line)} - inside):
                if _has_letters(text[start:end]):
                    spans.append((start, end))
                    start = end
            offset += len(line)
            if text[start:offset].strip():
                spans.append((spans.pop()[0] if len(spans) > before else start, offset))
            start = offset
        return [_without_blanks(text, *span) for span in spans] if len(spans) > 1 else [(0, len(text))]

    return split


def _has_letters(text: str) -> bool:
    return any(map(str.isalpha, text))


def _without_blanks(text: str, start: int, end: int) -> Span:
    part = text[start:end]
    return end - len(part.lstrip()), start + len(part.rstrip())
