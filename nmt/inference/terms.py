"""Write text where attention puts it: what a translation must contain, such as glossary terms, and unknown words.

It works on finished translations, so with every search and engine. The step for unknown words: Luong, Sutskever, Le,
Vinyals & Zaremba (2015), Addressing the Rare Word Problem in Neural Machine Translation, arXiv 1410.8206. As in Jean,
Cho, Memisevic & Bengio (2015), arXiv 1412.2007, attention says which word to write.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from nmt.alignment.word_weights import aligned_units, is_mark
from nmt.data.words import Span, mapped, overlaps
from nmt.inference.translation import MARK, Translation
from nmt.text.specials import UNK
from nmt.text.tokenizer import SPECIALS
from nmt.text.writing import UNSPACED, WITHOUT_BLANKS


class Required(NamedTuple):
    """Text that the translation of a line must contain."""

    start: int
    """Index of its first character in the source."""
    stop: int
    text: str
    capital: bool = False
    """Whether its first letter is a capital if it is the first word of the translation."""


class Kept(NamedTuple):
    """Neighbouring texts that were taken out of a line, and that its translation keeps."""

    at: int
    """Index in the text that the model reads."""
    parts: Sequence[tuple[str, Span]]
    """Each text, with the marks and blanks before it, and its place in the line."""
    left: str
    """The character before them in the line; empty at its start."""
    right: str


class Edit(NamedTuple):
    """A change of a text: ``text`` replaces the characters from ``start`` to ``stop``."""

    start: int
    stop: int
    text: str
    source: Span | None = None
    """The part of the source that inserted text is linked to."""


CLOSING = frozenset(".,;:!?…)]}»”’。、，；：！？）」』")
OPENING = frozenset("([{«“„‚¿¡（「『")


class Placing:
    """A finished translation, and the edits that write required text into it. Edited text is not edited again."""

    def __init__(self, translation: Translation) -> None:
        self.text = translation.text
        self.source = translation.source
        self.units = aligned_units(translation)
        self._by_source = np.ascontiguousarray(self.units.weights.T)
        self.links = self.units.links()
        self.targets: list[list[int]] = [[] for _ in self.units.source]
        for j, i in enumerate(self.links):
            if i >= 0:
                self.targets[i].append(j)
        self.cores = [core_span(self.text, *unit) for unit in self.units.target]
        self.edits = list[Edit]()
        self._edited = bytearray(len(self.text))
        self._occurrences = dict[str, np.ndarray]()  # of a phrase: start, stop, first and last unit of each

    def write(self, required: Iterable[Required]) -> None:
        """Write each required text as often as it is required.

        A text stays where the translation has it. Others replace the words that are aligned to their source, or are
        inserted beside the words that are aligned to its neighbours.
        """
        # The longest text first: "York" must not take the end of "New York".
        items = sorted(required, key=lambda item: -len(item.text))
        for item, columns in zip(items, overlaps(self.units.source, [item[:2] for item in items]), strict=True):
            strength = self._by_source[columns].sum(axis=0)
            span = self._occurrence(item.text, strength) or self._run(columns, strength)
            if span is None:
                self._insert(self._position(columns, item.stop), item.text, (item.start, item.stop))
                continue
            is_first = not any(map(str.isalnum, self.text[: span[0]]))
            new = item.text[0].title() + item.text[1:] if item.capital and is_first else item.text
            self.edits.append(Edit(*span, new))
            self._edited[slice(*span)] = b"\1" * (span[1] - span[0])

    def insert_kept(self, kept: Kept) -> None:
        """Insert text that was taken out of the source, beside the translation of its neighbours."""
        starts = [start for start, _ in self.units.source]
        number = bisect_left(starts, kept.at)
        left, right = _is_glued(kept.left, OPENING), _is_glued(kept.right, CLOSING)
        if left and (linked := self.targets[number - 1]):
            start, stop = self.units.target[max(linked, key=lambda j: self.units.weights[j, number - 1])]
            at = (core_span(self.text, start, stop) or (0, stop))[1] if kept.left.isalnum() else stop
            right = False
        elif right and (linked := self.targets[number := bisect_right(starts, kept.at) - 1]):
            start, stop = self.units.target[max(linked, key=lambda j: self.units.weights[j, number])]
            at = (core_span(self.text, start, stop) or (start, 0))[0]
            left = False
        else:
            left = right = False
            at = self._position(range(number, number), kept.at)
        for row, (text, span) in enumerate(kept.parts):
            is_last = row == len(kept.parts) - 1
            self._insert(at, text, span, left=left or row > 0, right=right or not is_last)

    def _is_free(self, start: int, stop: int) -> bool:
        return not any(self._edited[start:stop])

    def _occurrence(self, phrase: str, strength: np.ndarray) -> Span | None:
        """Return the span of ``phrase`` in the text, in any case: the strongest occurrence that is free."""
        if phrase not in self._occurrences:
            letter = rf"[\w{''.join(filter(is_mark, {*self.text}))}]"
            ends = _boundary(phrase[0], "(?<!%s)", letter), _boundary(phrase[-1], "(?!%s)", letter)
            pattern = re.escape(phrase).join(ends)
            spans = [match.span() for match in re.finditer(pattern, self.text, re.IGNORECASE)]
            self._occurrences[phrase] = np.array(
                [
                    (*span, units.start, units.stop - 1)
                    for span, units in zip(spans, overlaps(self.units.target, spans), strict=True)
                    if units
                ]
            ).reshape(-1, 4)
        while len(found := self._occurrences[phrase]):
            best = int(strength[found[:, 2:]].max(axis=1).argmax())
            start, stop = map(int, found[best, :2])
            self._occurrences[phrase] = np.delete(found, best, axis=0)
            if self._is_free(start, stop):
                return start, stop
        return None

    def _run(self, columns: range, strength: np.ndarray) -> Span | None:
        """Return the neighbouring units linked to ``columns`` with the most strength, without marks at their ends."""
        linked = sorted(j for i in columns for j in self.targets[i])
        spans = {j: core for j in linked if (core := self.cores[j]) and self._is_free(*core)}
        runs = list[list[int]]()
        for j in spans:
            if runs and runs[-1][-1] == j - 1 and self._is_free(spans[j - 1][1], spans[j][0]):
                runs[-1].append(j)
            else:
                runs.append([j])
        best = max(runs, key=lambda run: strength[run].sum(), default=None)
        return None if best is None else (spans[best[0]][0], spans[best[-1]][1])

    def _position(self, columns: range, stop: int) -> int:
        """Return where text for source units belongs that the translation lacks; they end at the character ``stop``.

        Before a mark of the source, it stands before that of the translation. Only the end of the source stands behind
        the full stop.
        """
        index = insertion_index(self.links, columns.start, columns.stop)
        before_mark = self.source[stop : stop + 1] in CLOSING
        if index == len(self.links) and self.source[stop:].strip():
            while index and not self.cores[index - 1]:
                index -= 1
            before_mark = True
        if index == 0:
            return 0
        core = self.cores[index - 1]
        return core[1] if before_mark and core else self.units.target[index - 1][1]

    def _insert(self, at: int, text: str, source: Span, *, left: bool = False, right: bool = False) -> None:
        """Insert text, with blanks beside it unless it is glued to its ``left`` or ``right``."""
        while 0 < at < len(self.text) and self._edited[at - 1] and self._edited[at]:
            at += 1
        before, after = self.text[at - 1 : at] if at else "", self.text[at : at + 1]
        lead = "" if left or not before or before.isspace() or before in OPENING else _space(before, text[0])
        is_word = not at or after.isalnum() or after in OPENING
        trail = " " if not self.text else "" if right or after.isspace() or not is_word else _space(text[-1], after)
        self.edits.append(Edit(at, at, lead + text + trail, source))


def _is_glued(neighbour: str, marks: Set[str]) -> bool:
    """Return whether a text belongs to the word of its ``neighbour``, which may be one of some ``marks``."""
    is_free = neighbour.isspace() or neighbour in marks or WITHOUT_BLANKS.match(neighbour) or UNSPACED.match(neighbour)
    return neighbour != "" and not is_free


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
    for number, (before, edit) in enumerate(pairwise(edits), 1):
        if before.stop == edit.stop and before.text.endswith(" "):  # both were inserted there
            edits[number] = edit._replace(text=edit.text.lstrip(" "))
    edited = EditedText(translation.text, edits)
    inserted = [edit.start for edit in edits if edit.source]

    def moved(start: int, stop: int) -> Span:
        # Text that is inserted before the full stop of a word is another word.
        behind = bisect_right(inserted, start)
        return mapped(edited.moved, start, min([stop, *inserted[behind : behind + 1]]))

    spans = [moved(*span) for span in translation.spans]
    reached = np.maximum.accumulate(np.array([start for start, _ in translation.spans], dtype=np.int64))
    starts, stops = np.array([*translation.source_spans, (-1, -1)]).T
    rows = [*zip(translation.tokens, translation.token_log_probs, translation.alignment, strict=True)]
    for number, edit in reversed([*enumerate(edits)]):
        if not edit.source:
            continue
        first, last = edit.source
        row = int(np.searchsorted(reached, edit.start))
        inside = edit.text.strip()
        at = edited.starts[number] + edit.text.index(inside)
        weights = np.zeros_like(translation.alignment[0])
        weights[: len(starts) - 1] = ((starts < last) & (first < stops))[:-1]
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


def replace_unknown(translation: Translation, change_text: Callable[[str], str]) -> Translation:
    """Return the translation without unknown pieces in its text. ``change_text`` changes a line as the model reads it.

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
