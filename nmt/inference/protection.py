"""The step for text that a translation must contain: glossary terms, and text that it keeps as it is."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from html import unescape
from typing import NamedTuple

import numpy as np

from nmt.data.words import Span, mapped, overlaps
from nmt.inference.markup import MARKUP
from nmt.inference.steps import Step, Steps
from nmt.inference.terms import CLOSING, OPENING, Edit, EditedText, Kept, Placing, Required, apply_edits
from nmt.inference.translation import Translation
from nmt.text.glossary import Glossary
from nmt.text.placeholders import KeptText

PAIRS = frozenset({"()", "[]", "{}", '""', "''", "“”", "‘’", "«»", "„“", "<>"})


class Protected(NamedTuple):
    """A line as the model reads it, and the text that its translation must contain."""

    text: str
    required: Sequence[Required]
    kept: Sequence[Kept]
    origins: Sequence[Span]
    """The part of the original line that each character of ``text`` comes from."""


def term_step(kept_text: KeptText | None, glossary: Glossary | None, *, letters: bool) -> Step:
    """Return the step that writes the terms of a glossary and keeps some text; see ``protect``."""

    def step(line: str) -> Steps:
        protected = protect(line, kept_text, glossary, letters=letters)
        [translation] = yield [protected.text]
        if not protected.text:  # nothing is left to translate
            return replace(translation, text=line.strip())
        if translation.alignment is None or not (protected.required or protected.kept):
            return translation
        return translation.each(lambda best: complete(best, protected, line))

    return step


def protect(line: str, kept_text: KeptText | None, glossary: Glossary | None, *, letters: bool) -> Protected:
    """Return a line without the text that its translation keeps, and all that the translation must contain.

    With ``letters``, a line without letters becomes empty, because it needs no translation. A number within
    a term of the glossary belongs to the term. A term does not match around text that was taken out.
    """
    spans = kept_spans(line, kept_text, glossary)
    if not spans and not glossary and (not letters or any(map(str.isalpha, line))):
        return Protected(line, [], [], [])  # most lines
    groups = [*_groups(line, spans)]
    edited = EditedText(line, [_cut(line, parts[0][1][0], parts[-1][1][1]) for parts in groups])
    text = edited.text
    if letters and not any(map(str.isalpha, text)):
        return Protected("", [], [], [])
    gaps = edited.starts[:-1]
    kept = [
        Kept(at, parts, line[: parts[0][1][0]][-1:], line[parts[-1][1][1] :][:1])
        for at, parts in zip(gaps, groups, strict=True)
    ]
    required = [
        Required(term.start, term.stop, term.target, term.capital)
        for term in (glossary.matches(text) if glossary else ())
        if bisect_right(gaps, term.start) == bisect_left(gaps, term.stop)
    ]
    return Protected(text, required, kept, edited.origins)


def kept_spans(line: str, kept_text: KeptText | None, glossary: Glossary | None) -> list[Span]:
    """Return the parts of a line that its translation keeps."""
    matches = kept_text.matches(line) if kept_text else []
    if not matches:
        return []
    terms: list[Span] = []
    if glossary and any(match.lastgroup == "number" for match in matches):
        terms = [(term.start, term.stop) for term in glossary.matches(line)]
    spans = [match.span() for match in matches]
    inside = overlaps(terms, spans)
    return [
        span
        for match, span, within in zip(matches, spans, inside, strict=True)
        if match.lastgroup != "number" or not any(terms[n][0] <= span[0] and span[1] <= terms[n][1] for n in within)
    ]


def _groups(line: str, spans: Sequence[Span]) -> Iterator[list[tuple[str, Span]]]:
    """Yield neighbouring texts, between which no letter or digit stands, with the marks between them.

    Brackets and quotation marks around a group belong to it.
    """
    groups = list[list[Span]]()
    for span in spans:
        if groups and not any(map(str.isalnum, line[groups[-1][-1][1] : span[0]])):
            groups[-1].append((groups[-1][-1][1], span[1]))
        else:
            groups.append([span])
    for group in groups:
        (start, _), (_, stop) = group[0], group[-1]
        while start and line[start - 1] + line[stop : stop + 1] in PAIRS:
            start, stop = start - 1, stop + 1
        if line[stop : stop + 1] == "-" and line[stop + 1 : stop + 2].isalpha():
            stop += 1  # 5-year
        if (mark := line[stop : stop + 1]) in CLOSING and line[:start].rstrip()[-1:] == mark:
            stop += 1  # such as the second comma of a pair
        group[0], group[-1] = (start, group[0][1]), (group[-1][0], stop)
        if len(group) == 1:
            group[0] = (start, stop)
        yield [(line[slice(*span)], span) for span in group]


def _cut(line: str, start: int, stop: int) -> Edit:
    """Return the edit that takes a part out of a line, with one of the blanks beside it."""
    before, after = line[:start][-1:], line[stop:][:1]
    if not before.strip() or before in OPENING:
        if after.isspace():
            return Edit(start, stop + 1, "")
        if before.isspace() and (not after or after in CLOSING):
            return Edit(start - 1, stop, "")
    return Edit(start, stop, " " if before.isalnum() and after.isalnum() else "")


def lost_step(kept_text: KeptText, glossary: Glossary | None, *, markup: bool) -> Step:
    """Return the step that compares a line with its translation, and names the kept texts and terms that it lost.

    It counts them in the line and in the finished translation, whatever other steps have written. In HTML, tags count.
    """

    def step(line: str) -> Steps:
        [translation] = yield [line]
        plain = _plain(line) if markup else line
        kept = Counter(plain[slice(*span)] for span in kept_spans(plain, kept_text, glossary))
        kept.update(MARKUP.findall(line) if markup else ())
        required = protect(plain, kept_text, glossary, letters=False).required if glossary else []
        if not kept and not required:
            return translation
        terms = Counter(item.text for item in required)
        n_best = [replace(best, lost=lost(best.text, kept, terms)) for best in translation.n_best or [translation]]
        return replace(n_best[0], n_best=translation.n_best and n_best)

    def lost(text: str, kept: Counter[str], terms: Counter[str]) -> list[str]:
        plain = _plain(text) if markup else text
        found = Counter(match[0] for match in kept_text.matches(plain))
        found.update(MARKUP.findall(text) if markup else ())
        # A text may stand beside characters with which it is another one, such as :name in a:name.
        lost_texts = [
            it
            for it, count in kept.items()
            if found[it] < count and len(re.findall(rf"(?<![0-9]){re.escape(it)}(?![0-9])", plain)) < count
        ]
        letters = "".join(plain.split()).lower()
        return lost_texts + [it for it, count in terms.items() if letters.count("".join(it.split()).lower()) < count]

    return step


def _plain(page: str) -> str:
    """Return the text of HTML."""
    return unescape(MARKUP.sub("", page))


def complete(translation: Translation, protected: Protected, line: str) -> Translation:
    """Return a translation of protected text with all that it must contain, aligned to the ``line``."""
    placing = Placing(translation)
    placing.write(protected.required)
    edits = [it._replace(source=it.source and mapped(protected.origins, *it.source)) for it in placing.edits]
    placing.edits.clear()
    for kept in protected.kept:
        placing.insert_kept(kept)
    spans = [mapped(protected.origins, *span) for span in translation.source_spans]
    parts = [part for kept in protected.kept for part in kept.parts]
    widened = _with_source_tokens(replace(translation, source=line, source_spans=spans), parts)
    return apply_edits(widened, edits + placing.edits)


def _with_source_tokens(translation: Translation, parts: Sequence[tuple[str, Span]]) -> Translation:
    """Return the translation with these parts of its source as further source tokens, without weights."""
    assert translation.alignment is not None
    tokens, spans = [*translation.source_tokens], [*translation.source_spans]
    columns = list[int]()
    column = 0
    for added, (text, span) in enumerate(parts):
        while column + added < len(spans) and spans[column + added][0] < span[0]:
            column += 1
        columns.append(column)
        tokens.insert(column + added, f"▁{text.strip()}")
        spans.insert(column + added, span)
    alignment = np.insert(translation.alignment, columns, 0, axis=1)
    return replace(translation, source_tokens=tokens, source_spans=spans, alignment=alignment)
