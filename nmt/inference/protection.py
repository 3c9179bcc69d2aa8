"""Take text out of a line that its translation keeps, and write such text and glossary terms into the translation."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from nmt.data.words import Span, mapped
from nmt.inference.terms import CLOSING, OPENING, Edit, EditedText, Kept, Placing, Required, apply_edits
from nmt.inference.translation import Translation
from nmt.text.glossary import Glossary

PAIRS = frozenset({"()", "[]", "{}", '""', "''", "“”", "‘’", "«»", "„“", "<>"})


class Protected(NamedTuple):
    """A line as the model reads it, and the text that its translation must contain."""

    text: str
    required: Sequence[Required]
    kept: Sequence[Kept]
    origins: Sequence[Span]
    """The part of the original line that each character of ``text`` comes from."""


def protect(line: str, spans: Sequence[Span], glossary: Glossary | None, *, letters: bool) -> Protected:
    """Return a line without ``spans``, the text that its translation keeps, and all that the translation must contain.

    With ``letters``, a line without letters becomes empty, because it needs no translation. A number within
    a term of the glossary belongs to the term. A term does not match around text that was taken out.
    """
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
