"""Attention weights between pieces and between words, from the raw alignment of a translation, and their labels."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import chain, pairwise
from typing import NamedTuple, Protocol

import numpy as np

from nmt.data.links import Link
from nmt.data.words import WORD, Span, overlaps, split_words, words_of
from nmt.text.writing import UNSPACED

PART = re.compile("[\U000f0000-\U000fffff]|[^ \t\U000f0000-\U000fffff]+")
"""A word, or a character for private use, which stands for an element of HTML."""


class AlignedTranslation(Protocol):
    """A translation, from search or forced decoding, with its raw alignment between pieces."""

    @property
    def source(self) -> str: ...

    @property
    def text(self) -> str: ...

    @property
    def alignment(self) -> np.ndarray | None:
        """Raw alignment (T, S), where T and S count ``</s>``; None if it was not asked for."""
        ...

    @property
    def source_tokens(self) -> list[str]: ...

    @property
    def tokens(self) -> list[str]: ...

    @property
    def source_spans(self) -> Sequence[Span]:
        """The part of ``source`` that each source piece spells, without ``</s>``."""
        ...

    @property
    def spans(self) -> Sequence[Span]:
        """The part of ``text`` that each target piece spells, without ``</s>``."""
        ...


class Display(NamedTuple):
    """Weights (T, S), with the labels of its columns (source) and rows (target)."""

    weights: np.ndarray
    source: list[str]
    target: list[str]
    equal: np.ndarray | None = None
    """Weight (S) of each word if all source pieces had equal weights; None for pieces."""


class Units(NamedTuple):
    """The units of a source and its translation: words, or pieces in scripts without spaces."""

    source: list[Span]
    target: list[Span]
    weights: np.ndarray
    """Weight (J, I) of each source unit for each target unit."""

    def links(self) -> list[int]:
        """Return the source unit of each target unit, −1 for one without weights.

        It is the one that gives the target unit the largest share of all its weight. Long words and full stops have
        weight in many rows. A tenth of the mean is added to each sum, so that units with hardly any weight get no link.
        """
        sums = self.weights.sum(axis=0)
        shares = self.weights / (sums + 0.1 * sums.mean() if sums.any() else 1.0)
        links: list[int] = np.where(shares.any(axis=1), shares.argmax(axis=1), -1).tolist() if shares.size else []
        return links or [-1] * len(self.target)


def aligned_units(translation: AlignedTranslation, *, split: bool = True) -> Units:
    """Return the units of a translation and of its source, with the weights between them.

    Without ``split``, a word of a script without spaces, such as a Chinese sentence, stays one unit.
    """
    (source, columns), (target, rows) = _units(translation, split=split)
    # A translation that was cut at its maximum length has no </s> to drop.
    inner = _raw_weights(translation)[: len(rows), : len(columns)]
    return Units(source, target, merge_pieces(inner, columns, rows, shape=(len(target), len(source))))


def _units(translation: AlignedTranslation, *, split: bool = True) -> list[tuple[list[Span], list[range]]]:
    """Return the units of source and target, and the units of each piece."""
    sides = list[tuple[list[Span], list[range]]]()
    for text, spans in ((translation.source, translation.source_spans), (translation.text, translation.spans)):
        units = list[Span]()
        starts = sorted({start for start, stop in spans if start < stop and not is_mark(text[start])})
        for start, stop in (part.span() for part in (PART if split else WORD).finditer(text)):
            is_split = split and UNSPACED.search(text, start, stop)
            units += pairwise([start, *(at for at in starts if is_split and start < at < stop), stop])
        sides.append((units, overlaps(units, spans)))
    return sides


def is_mark(character: str) -> bool:
    """Return whether a character belongs to the letter before it, as the vowel signs of Hindi and Thai do."""
    return unicodedata.category(character).startswith("M")


def display_pieces(translation: AlignedTranslation, *, signed: bool) -> Display:
    """Return the weight (T, S) of each source piece for each target piece.

    ``signed`` weights are the raw ones; otherwise each row holds shares of the source that sum to 1.
    """
    raw = _raw_weights(translation)
    return Display(raw if signed else normalise_rows(raw), translation.source_tokens, translation.tokens)


def word_weights(translation: AlignedTranslation) -> np.ndarray:
    """Return the weight (J, I) of each source word for each target word, without ``</s>``."""
    return aligned_units(translation, split=False).weights


def display_weights(translation: AlignedTranslation, *, split: bool = True) -> Display:
    """Return the weights between the units of a translation; see ``aligned_units``.

    Words that the tokenizer removes have weight 0. Gold links count words: they need ``split=False``.
    """
    units = aligned_units(translation, split=split)
    source, target = translation.source, translation.text
    names = [source[slice(*unit)] for unit in units.source], [target[slice(*unit)] for unit in units.target]
    (_, columns), _ = _units(translation, split=split)
    [equal] = _sum_by_word(normalise_rows(np.ones((1, len(columns)))), columns, len(units.source))
    return Display(units.weights, *names, equal)


def display_slots(
    translation: AlignedTranslation, write: np.ndarray, read: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return α (I, R) of each source word and β (J, R) of each target word, for the words of ``display_weights``.

    ``write`` (R, S) is α and ``read`` (T, R) is β of the pieces. β α of words is the alignment of words, as it is of
    pieces: the sum of the alignments of all heads and layers.
    """
    (source, columns), (target, rows) = _units(translation)
    of_source = _sum_by_word(write[:, : len(columns)], columns, len(source)).T
    return of_source, _mean_by_word(read[: len(rows)], rows, len(target))


def lost_words(translation: AlignedTranslation) -> Iterator[tuple[str, list[str]]]:
    """Yield the sides (source, target) that have words without pieces, and these words: the tokenizer removes them."""
    for side, text, spans in (
        ("source", translation.source, translation.source_spans),
        ("target", translation.text, translation.spans),
    ):
        covered = {*chain(*words_of(text, spans))}
        if lost := [word for number, word in enumerate(split_words(text)) if number not in covered]:
            yield side, lost


def normalise_rows(alignment: np.ndarray) -> np.ndarray:
    """Return |A| (T, S) with rows that sum to 1; rows of zeros stay zero."""
    weights = np.abs(alignment)
    total = weights.sum(axis=1, keepdims=True)
    shares: np.ndarray = np.divide(weights, total, out=np.zeros_like(weights), where=total > 0)
    return shares


def merge_pieces(
    alignment: np.ndarray, source: Sequence[range], target: Sequence[range], *, shape: tuple[int, int]
) -> np.ndarray:
    """Return weights (J, I) between words: the sum over a word's source pieces, the mean over its target pieces.

    ``alignment`` (T, S) is raw and without ``</s>``. ``source`` (S) and ``target`` (T) are the words of each piece. A
    source piece of several words has equal parts of its weight for each.
    """
    return _mean_by_word(_sum_by_word(normalise_rows(alignment), source, shape[1]), target, shape[0])


def _sum_by_word(weights: np.ndarray, words: Sequence[range], count: int) -> np.ndarray:
    """Return the sums (N, I) of weights (N, S) over the pieces of each word; see ``merge_pieces``."""
    pieces, numbers = _piece_words(words)
    sums = np.zeros((len(weights), count))
    np.add.at(sums.T, numbers, (weights[:, pieces] / np.bincount(pieces)[pieces]).T)
    return sums


def _mean_by_word(weights: np.ndarray, words: Sequence[range], count: int) -> np.ndarray:
    """Return the means (J, N) of weights (T, N) over the pieces of each word."""
    pieces, numbers = _piece_words(words)
    sums = np.zeros((count, weights.shape[1]))
    np.add.at(sums, numbers, weights[pieces])
    means: np.ndarray = sums / np.maximum(np.bincount(numbers, minlength=count), 1)[:, None]
    return means


def linked_pieces(linked: np.ndarray, source: Sequence[range], target: Sequence[range]) -> np.ndarray:
    """Return which pieces (T, S) have linked words; ``linked`` (J, I) is 1 for linked words and 0 for others."""
    columns, column_words = _piece_words(source)
    rows, row_words = _piece_words(target)
    pieces = np.zeros((len(target), len(source)))
    np.maximum.at(pieces, np.ix_(rows, columns), linked[np.ix_(row_words, column_words)])
    return pieces


def _piece_words(words: Sequence[range]) -> tuple[np.ndarray, np.ndarray]:
    """Return piece and word of each (piece, word), sorted by piece; a piece of n words has n of them."""
    pieces = np.repeat(np.arange(len(words)), np.fromiter(map(len, words), dtype=np.int64))
    return pieces, np.fromiter(chain(*words), dtype=np.int64, count=len(pieces))


def _raw_weights(translation: AlignedTranslation) -> np.ndarray:
    assert translation.alignment is not None, "no alignment: translate with alignments=True"
    return translation.alignment


def argmax_links(weights: np.ndarray) -> frozenset[Link]:
    """Return, for each target word of ``weights`` (J, I), a link to the source word with the largest weight.

    A target word whose weights are all 0 gets no link.
    """
    if not weights.size:
        return frozenset()
    return frozenset((int(row.argmax()), j) for j, row in enumerate(weights) if row.max() > 0)
