"""Write text where attention puts it: what a translation must contain, such as glossary terms, and unknown words.

It works on finished translations, so with every search and engine. The step for unknown words: Luong, Sutskever, Le,
Vinyals & Zaremba (2015), Addressing the Rare Word Problem in Neural Machine Translation, arXiv 1410.8206. As in Jean,
Cho, Memisevic & Bengio (2015), arXiv 1412.2007, attention says which word to write.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from nmt.alignment.word_weights import aligned_units, is_mark
from nmt.data.words import Span, mapped, overlapping
from nmt.inference.steps import Step, Steps
from nmt.inference.translation import Translation
from nmt.text.specials import UNK
from nmt.text.tokenizer import SPECIALS
from nmt.text.writing import UNSPACED, WITHOUT_BLANKS


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
    source: Span | None = None
    """The part of the source that inserted text is linked to."""


def write_terms(translation: Translation, required: Sequence[Required]) -> Translation:
    """Return the translation with all ``required`` texts, each as often as it is required.

    A text, or its stand-in, stays where the translation has it. Other texts replace the words that are aligned to their
    source, or are inserted beside the words that are aligned to its neighbours.
    """
    text = translation.text
    units = aligned_units(translation)
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
            editor.edits.append(Edit(at, at, new, (item.start, item.stop)))
        else:
            is_first = not any(map(str.isalnum, text[: span[0]]))
            new = item.text[0].title() + item.text[1:] if item.capital and is_first else item.text
            editor.edits.append(Edit(*span, new))
    for stand_in in {item.stand_in for item in required} - {""}:
        while span := editor.occurrence(stand_in, np.zeros(len(links))):
            editor.edits.append(Edit(len(text[: span[0]].rstrip()), span[1], ""))
    return apply_edits(translation, editor.edits)


class _Editor:
    """A translation, its units and its edits so far. Text that no edit has changed is free for further ones."""

    def __init__(self, text: str, units: Sequence[Span]) -> None:
        self.text = text
        self.units = units
        self.edits = list[Edit]()

    def is_free(self, start: int, stop: int) -> bool:
        """Return whether no edit has changed these characters."""
        return all(edit.stop <= start or stop <= edit.start for edit in self.edits)

    def occurrence(self, phrase: str, strength: np.ndarray) -> Span | None:
        """Return the span of ``phrase`` in the text, in any case: the strongest occurrence that is not changed."""
        letter = rf"[\w{''.join(filter(is_mark, {*self.text}))}]"
        ends = _boundary(phrase[0], "(?<!%s)", letter), _boundary(phrase[-1], "(?!%s)", letter)
        pattern = re.escape(phrase).join(ends)
        spans = [match.span() for match in re.finditer(pattern, self.text, re.IGNORECASE)]
        free = (span for span in spans if self.is_free(*span))
        return max(free, key=lambda span: strength[overlapping(self.units, *span)].max(initial=0), default=None)

    def run(self, aligned: Sequence[int], strength: np.ndarray) -> Span | None:
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
    return lookaround % letter if (edge.isalnum() or is_mark(edge)) and not UNSPACED.match(edge) else ""


def core_span(text: str, start: int, stop: int) -> Span | None:
    """Return the span from the first to the last letter or digit of a part of a text; None without any."""
    inside = [at for at in range(start, stop) if text[at].isalnum()]
    if not inside:
        return None
    end = inside[-1] + 1
    while end < stop and is_mark(text[end]):
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
        self.moved = list[Span]()  # the part of the new text that each old character has become
        self.origins = list[Span]()  # the part of the old text that each new character comes from
        texts = list[str]()
        for edit in [*edits, Edit(len(text), len(text), "")]:
            kept = range(len(self.moved), edit.start)
            self.moved += [(at, at + 1) for at in range(len(self.origins), len(self.origins) + len(kept))]
            self.origins += [(at, at + 1) for at in kept]
            start = len(self.origins)
            self.starts.append(start)
            self.moved += [(start, start + len(edit.text))] * (edit.stop - edit.start)
            self.origins += [(edit.start, edit.stop)] * len(edit.text)
            texts += text[kept.start : kept.stop], edit.text
        self.text = "".join(texts)


def apply_edits(translation: Translation, edits: Sequence[Edit]) -> Translation:
    """Return the translation with changed text, without blanks at its ends.

    Inserted text is a new token, aligned to the tokens of its source.
    """
    assert translation.alignment is not None
    edits = [edit for edit in edits if translation.text[edit.start : edit.stop] != edit.text]
    edits.sort(key=lambda edit: (edit.start, edit.stop, edit.source or ()))
    edited = EditedText(translation.text, edits)
    inserted = [edit.start for edit in edits if edit.source]

    def moved(start: int, stop: int) -> Span:
        # Text that is inserted before the full stop of a word is another word.
        stop = min([stop, *(at for at in inserted if start < at)])
        return mapped(edited.moved, start, stop)

    spans = [moved(*span) for span in translation.spans]
    rows = [*zip(translation.tokens, translation.token_log_probs, translation.alignment, strict=True)]
    for number, edit in reversed([*enumerate(edits)]):
        if not edit.source:
            continue
        first, last = edit.source
        behind = (t for t, (start, _) in enumerate(translation.spans) if start >= edit.start)
        row = next(behind, len(translation.spans))
        inside = edit.text.strip()
        at = edited.starts[number] + edit.text.index(inside)
        weights = np.zeros_like(translation.alignment[0])
        weights[: len(translation.source_spans)] = [a < last and first < b for a, b in translation.source_spans]
        spans.insert(row, (at, at + len(inside)))
        rows.insert(row, (f"▁{inside}", math.nan, weights))
    tokens, log_probs, alignment = zip(*rows, strict=True)
    written = replace(
        translation,
        text=edited.text,
        tokens=[*tokens],
        token_log_probs=[*log_probs],
        inserted=translation.inserted + len(rows) - len(translation.tokens),
        spans=spans,
        alignment=np.stack(alignment),
    )
    blanks = [Edit(*match.span(), "") for match in re.finditer("^ +| +$", written.text)]
    return apply_edits(written, blanks) if blanks else written


MARK = "\ufffd"
"""The text of an unknown piece until its word is replaced."""


def unknown_word_step(change_text: Callable[[str], str]) -> Step:
    """Return the step that replaces unknown words; ``change_text`` changes a line as the model reads it."""

    def step(line: str) -> Steps:
        [translation] = yield [line]
        if translation.alignment is None:
            return translation
        return translation.each(lambda best: replace_unknown(best, change_text))

    return step


def replace_unknown(translation: Translation, change_text: Callable[[str], str] = str) -> Translation:
    """Return the translation without unknown pieces in its text.

    A target word with such a piece is replaced by the source word with the largest weight. A word without weight on any
    source word only loses its unknown pieces. In scripts without spaces, pieces take the place of words.
    """
    if SPECIALS[UNK] not in translation.tokens:
        return translation
    units = aligned_units(translation)
    edits = list[Edit]()
    for (start, stop), i in zip(units.target, units.links(), strict=True):
        word = translation.text[start:stop]
        if MARK in word:
            new = change_text(translation.source[slice(*units.source[i])]) if i >= 0 else ""
            new = word.replace(MARK, new) if UNSPACED.search(word) or not new else new
            edits.append(Edit(start if new else len(translation.text[:start].rstrip()), stop, new))
    return apply_edits(translation, edits)
