"""Write text that a translation must contain, such as glossary terms, where attention puts it.

It works on finished translations, so with every search and engine.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple
from unicodedata import category, normalize

import numpy as np

from nmt.alignment.word_weights import merge_pieces, split_unspaced
from nmt.data.words import PieceWords, overlapping, word_positions, word_spans
from nmt.inference.translation import Translation
from nmt.text.specials import EOS, SPACE, UNK
from nmt.text.tokenizer import SPECIALS
from nmt.text.writing import UNSPACED, WITHOUT_BLANKS

LETTER = re.compile(".[\u0300-\u036f\u3099\u309a\uff9e\uff9f]*", re.DOTALL)  # with accents, also of half-width kana


class Required(NamedTuple):
    """Text that the translation of a line must contain."""

    start: int
    """Index of its first character in the source."""
    stop: int
    text: str
    stand_in: str = ""
    """Text that the model reads there; empty: the source as it was."""
    capital: bool = False
    """Whether its first letter is a capital if it is the first word of the translation."""


class Edit(NamedTuple):
    """A change of a text: ``text`` replaces the characters from ``start`` to ``stop``."""

    start: int
    stop: int
    text: str
    source: Sequence[int] = ()
    """Source units that inserted text is linked to."""


class Units(NamedTuple):
    """The units of a source and its translation: words, or tokens in scripts without spaces."""

    source: list[tuple[int, int]]
    """Start and end of each unit."""
    target: list[tuple[int, int]]
    of_target: PieceWords
    """Unit of each target token."""
    of_source: PieceWords
    weights: np.ndarray
    """Weight (J, I) of each source unit for each target unit."""

    def links(self) -> list[int]:
        """Return the source unit of each target unit, −1 for one without weights."""
        return [int(row.argmax()) if row.any() else -1 for row in self.weights]


def aligned_units(translation: Translation, source: str) -> Units:
    """Return the units of ``source`` and of its translation, with the weights between them."""
    assert translation.alignment is not None
    target, of_target = _units(translation.text, translation.tokens, translation.target_words)
    columns, of_source = _units(source, translation.source_tokens, translation.source_words)
    inner = translation.alignment[: len(of_target), : len(of_source)]
    merged = merge_pieces(inner, of_source, of_target)
    weights = np.zeros((len(target), len(columns)))
    weights[: merged.shape[0], : merged.shape[1]] = merged
    return Units(source=columns, target=target, of_target=of_target, of_source=of_source, weights=weights)


def _units(text: str, pieces: Sequence[str], words: Sequence[int]) -> tuple[list[tuple[int, int]], PieceWords]:
    """Return the spans of the units of a text, and the unit of each piece."""
    spans = word_positions(text)
    if UNSPACED.search(text):
        # Many tokenizers read the text in this form.
        parts = [(normalize("NFKC", match[0]), match.span()) for match in LETTER.finditer(text)]
        read = "".join(part for part, _ in parts)
        origins = [span for part, span in parts for _ in part]
        names = [normalize("NFKC", text[start:stop]) for start, stop in spans]
        known = _with_texts([normalize("NFKC", piece) for piece in pieces], read)
        labels, numbers = split_unspaced(names, known, words)
        if (split := _positions(labels, read)) is not None:
            return [(origins[start][0], origins[stop - 1][1]) for start, stop in split], numbers
    return spans, PieceWords.of(word_spans(words))


def _positions(labels: Sequence[str], text: str) -> list[tuple[int, int]] | None:
    """Return the start and end of each label in a text that has them one after the other; None if it has not."""
    split = list[tuple[int, int]]()
    at = 0
    for label in labels:
        at = text.find(label, at)  # only spaces lie between
        if at < 0 or (split and text[split[-1][1] : at].strip()):
            return None
        split.append((at, at := at + len(label)))
    return split


def _with_texts(pieces: Sequence[str], text: str) -> list[str]:
    """Return the pieces with the characters of ``text`` for unknown ones, unless normalisation has changed it."""
    text = "".join(text.split())
    texts = [*pieces]
    unknown = None
    at = 0
    for number, piece in enumerate(pieces):
        if piece == SPECIALS[UNK]:
            unknown = number
        elif piece != SPECIALS[EOS] and (known := piece.replace(SPACE, "")):
            start = text.find(known, at + (unknown is not None))
            if start < 0 or (start != at and unknown is None):
                return [*pieces]
            if unknown is not None:
                texts[unknown] = text[at:start]
            unknown = None
            at = start + len(known)
    if unknown is not None and text[at:]:
        texts[unknown] = text[at:]
    return texts


def write_terms(translation: Translation, source: str, required: Sequence[Required]) -> Translation:
    """Return the translation of ``source`` with all ``required`` texts, each as often as it is required.

    A text, or its stand-in, stays where the translation has it. Other texts replace the words that are aligned to their
    source, or are inserted beside the words that are aligned to its neighbours.
    """
    text = translation.text
    units = aligned_units(translation, source)
    links = units.links()
    editor = _Editor(text, units.target)
    # The longest text first: "York" must not take the end of "New York".
    for item in sorted(required, key=lambda item: -len(item.stand_in or item.text)):
        columns = overlapping(units.source, item.start, item.stop)
        strength = units.weights[:, columns].sum(axis=1)
        aligned = [j for j, i in enumerate(links) if i in columns]
        span = editor.occurrence(item.stand_in or item.text, strength) or editor.run(aligned, strength)
        if span is None:
            at, new = editor.insertion(item.text, insertion_index(links, columns[0], columns[-1] + 1))
            editor.edits.append(Edit(at, at, new, columns))
        else:
            is_first = not any(map(str.isalnum, text[: span[0]]))
            new = item.text[0].title() + item.text[1:] if item.capital and is_first else item.text
            editor.edits.append(Edit(*span, new))
    for stand_in in {item.stand_in for item in required} - {""}:
        while span := editor.occurrence(stand_in, np.zeros(len(links))):
            editor.edits.append(Edit(len(text[: span[0]].rstrip()), span[1], ""))
    written = apply_edits(translation, units, editor.edits)
    return replace(written, text=written.text.strip(" "))  # a stand-in at the beginning may be gone


class _Editor:
    """A translation, its units and its edits so far. Text that no edit has changed is free for further ones."""

    def __init__(self, text: str, units: Sequence[tuple[int, int]]) -> None:
        self.text = text
        self.units = units
        self.edits = list[Edit]()

    def is_free(self, start: int, stop: int) -> bool:
        """Return whether no edit has changed these characters."""
        return all(edit.stop <= start or stop <= edit.start for edit in self.edits)

    def occurrence(self, phrase: str, strength: np.ndarray) -> tuple[int, int] | None:
        """Return the span of ``phrase`` in the text, in any case: the strongest occurrence that is not changed."""
        letter = rf"[\w{''.join(filter(_is_mark, {*self.text}))}]"
        ends = _boundary(phrase[0], "(?<!%s)", letter), _boundary(phrase[-1], "(?!%s)", letter)
        pattern = re.escape(phrase).join(ends)
        spans = [match.span() for match in re.finditer(pattern, self.text, re.IGNORECASE)]
        free = (span for span in spans if self.is_free(*span))
        return max(free, key=lambda span: strength[overlapping(self.units, *span)].max(initial=0), default=None)

    def run(self, aligned: Sequence[int], strength: np.ndarray) -> tuple[int, int] | None:
        """Return the neighbouring ``aligned`` units with the most strength, without punctuation at their ends."""
        spans = {j: core for j in aligned if (core := core_span(self.text, *self.units[j])) and self.is_free(*core)}
        runs = list[list[int]]()
        for j in spans:
            if runs and runs[-1][-1] == j - 1 and self.is_free(spans[j - 1][1], spans[j][0]):
                runs[-1].append(j)
            else:
                runs.append([j])
        best = max(runs, key=lambda run: strength[run].sum(), default=None)
        return None if best is None else (spans[best[0]][0], spans[best[-1]][1])

    def insertion(self, new: str, index: int) -> tuple[int, str]:
        """Return the position at which to insert a text before the unit ``index``, and the text with a space."""
        while 0 < index == len(self.units) and not core_span(self.text, *self.units[index - 1]):
            index -= 1  # before the full stop
        if index == 0:
            return 0, new + _space(new[-1], self.text[:1])
        start, stop = self.units[index - 1]
        at = stop if index < len(self.units) else core_span(self.text, start, stop)[1]  # type: ignore[index]
        at = max([at, *(edit.stop for edit in self.edits if edit.start < at < edit.stop)])
        return at, _space(self.text[at - 1], new[0]) + new


def _boundary(edge: str, lookaround: str, letter: str) -> str:
    """Return a pattern for the end of a word: a word may not go on with a ``letter``, and neither may a number."""
    if edge.isdigit():
        return lookaround % (r"\d[.,:٫٬]" if "<" in lookaround else r"[.,:٫٬]\d") + lookaround % letter
    return lookaround % letter if (edge.isalnum() or _is_mark(edge)) and not UNSPACED.match(edge) else ""


def _is_mark(character: str) -> bool:
    """Return whether a character belongs to the letter before it, as the vowel signs of Hindi do."""
    return category(character).startswith("M")


def core_span(text: str, start: int, stop: int) -> tuple[int, int] | None:
    """Return the span from the first to the last letter or digit of a part of a text; None without any."""
    inside = [at for at in range(start, stop) if text[at].isalnum()]
    if not inside:
        return None
    end = inside[-1] + 1
    while end < stop and _is_mark(text[end]):
        end += 1
    return inside[0], end


def _space(left: str, right: str) -> str:
    """Return the blank between two characters: none beside a mark of Chinese, or between letters without spaces."""
    has_mark = any(WITHOUT_BLANKS.match(side) and not UNSPACED.match(side) for side in (left, right))
    return "" if not right or has_mark or (UNSPACED.match(left) and UNSPACED.match(right)) else " "


def insertion_index(links: Sequence[int], start: int, stop: int) -> int:
    """Return the target unit before which the translation of the source units ``start`` to ``stop`` belongs.

    It stands beside the translation of their nearest neighbour that has one.
    """
    linked = {*links}
    for distance in range(max(start, max(links, default=0) + 1 - stop)):
        if (left := start - 1 - distance) >= 0 and left in linked:
            return len(links) - [*reversed(links)].index(left)
        if (right := stop + distance) in linked:
            return links.index(right)
    return len(links)


class EditedText:
    """A text after edits, which are sorted and do not overlap, and which characters of both texts belong together."""

    def __init__(self, text: str, edits: Sequence[Edit]) -> None:
        self.starts = list[int]()  # of each edit, in the new text
        self.moved = list[tuple[int, int]]()  # the part of the new text that each old character has become
        self.origins = list[tuple[int, int]]()  # the part of the old text that each new character comes from
        texts = list[str]()

        def write(new: str, start: int, stop: int) -> None:
            at = len(self.origins)
            self.moved += [(at, at + len(new))] * (stop - start)
            self.origins += [(start, stop)] * len(new)
            texts.append(new)

        for edit in [*edits, Edit(len(text), len(text), "")]:
            for at in range(len(self.moved), edit.start):
                write(text[at], at, at + 1)
            self.starts.append(len(self.origins))
            write(edit.text, edit.start, edit.stop)
        self.text = "".join(texts)


def apply_edits(translation: Translation, units: Units, edits: Sequence[Edit]) -> Translation:
    """Return the translation with changed text, and with the words of its tokens and of inserted text.

    Replaced words belong to the tokens of the words before. Inserted text is a new token, aligned to its source units.
    """
    edits = [edit for edit in edits if translation.text[edit.start : edit.stop] != edit.text]
    edits.sort(key=lambda edit: (edit.start, edit.stop, *edit.source[:1]))
    edited = EditedText(translation.text, edits)
    positions = word_positions(edited.text)
    inserted = [edit.start for edit in edits if edit.source]

    def words(start: int, stop: int) -> tuple[int, int]:
        """Return the first and last word of a part of the new text; −1 without words."""
        inside = overlapping(positions, start, stop) if start < stop else ()
        return (inside[0], inside[-1]) if inside else (-1, -1)

    def words_of(first: int, last: int) -> tuple[int, int]:
        """Return the words of the target units from ``first`` to ``last``, which may have changed."""
        start = units.target[first][0] if first >= 0 else math.inf
        # Text that is inserted before the full stop of a word is another word.
        stop = min([units.target[last][1], *(at for at in inserted if at > start)])
        return words(edited.moved[int(start)][0], edited.moved[stop - 1][1]) if start < stop else (-1, -1)

    assert translation.alignment is not None
    old = word_spans(units.of_target)
    spans = [words_of(first, last) for first, last in old]
    rows = [*zip(translation.tokens, translation.token_log_probs, translation.alignment, strict=True)]
    for number, edit in reversed([*enumerate(edits)]):
        if not edit.source:
            continue
        behind = (t for t, (unit, _) in enumerate(old) if unit >= 0 and units.target[unit][0] >= edit.start)
        row = next(behind, len(old))
        inside = edit.text.strip()
        start = edited.starts[number] + edit.text.index(inside)
        weights = np.zeros_like(translation.alignment[0])
        weights[: len(units.of_source)] = np.isin(units.of_source, edit.source)
        spans.insert(row, words(start, start + len(inside)))
        rows.insert(row, (f"▁{inside}", math.nan, weights))
    tokens, log_probs, alignment = zip(*rows, strict=True)
    return replace(
        translation,
        text=edited.text,
        tokens=[*tokens],
        token_log_probs=[*log_probs],
        inserted=len(rows) - len(translation.tokens),
        target_words=PieceWords.of(spans),
        alignment=np.stack(alignment),
    )
