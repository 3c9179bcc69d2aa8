"""Attention weights between pieces and between words, computed from the raw alignment of a translation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np

from nmt.data.links import Link
from nmt.data.words import last_words, missing_words, split_words
from nmt.errors import counted


class AlignedTranslation(Protocol):
    """A translation, from search or forced decoding, with its raw alignment between pieces."""

    @property
    def alignment(self) -> np.ndarray | None:
        """Raw alignment (T, S), where T and S count ``</s>``; None if it was not asked for."""
        ...

    @property
    def source_words(self) -> list[int]:
        """Index of the word to which each source piece belongs, without ``</s>``."""
        ...

    @property
    def target_words(self) -> list[int]:
        """Index of the word to which each target piece belongs, without ``</s>``."""
        ...


def piece_weights(translation: AlignedTranslation, *, signed: bool) -> np.ndarray:
    """Return the weight (T, S) of each source piece for each target piece.

    ``signed`` returns the raw weights; otherwise each row holds shares of the source that sum to 1.
    """
    raw = _raw_weights(translation)
    return raw if signed else normalise_rows(raw)


def word_weights(translation: AlignedTranslation) -> np.ndarray:
    """Return the weight (J, I) of each source word for each target word, without ``</s>``."""
    return merge_pieces(inner_weights(translation), translation.source_words, translation.target_words)


def inner_weights(translation: AlignedTranslation) -> np.ndarray:
    """Return the raw weights (T, S) without ``</s>``."""
    # Counts come from the words: a translation that was cut at its maximum length has no </s> to drop.
    return _raw_weights(translation)[: len(translation.target_words), : len(translation.source_words)]


def fit_word_weights(translation: AlignedTranslation, source: Sequence[str], target: Sequence[str]) -> np.ndarray:
    """Return ``word_weights`` with exactly one column per word of ``source`` and one row per word of ``target``.

    Words that the tokenizer removes have weight 0. Raises ValueError if a piece belongs to a word beyond these words:
    they are those of another text.
    """
    require_words(translation, source, target)
    weights = word_weights(translation)
    return np.pad(weights, [(0, len(target) - weights.shape[0]), (0, len(source) - weights.shape[1])])


def require_words(translation: AlignedTranslation, source: Sequence[str], target: Sequence[str]) -> None:
    """Raise ValueError if a piece of the translation belongs to a word that these words do not have."""
    for side, of_pieces, words in (
        ("source", translation.source_words, source),
        ("target", translation.target_words, target),
    ):
        if (most := max(last_words(of_pieces), default=-1)) >= len(words):
            raise ValueError(
                f"{side}: {counted(len(words), 'word')}, the alignment has {most + 1}; give the text that was aligned"
            )


def lost_words(translation: AlignedTranslation, source: str, target: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the sides (source, target) that have words without pieces, and these words: the tokenizer removes them."""
    for side, line, of_pieces in (
        ("source", source, translation.source_words),
        ("target", target, translation.target_words),
    ):
        words = split_words(line)
        if numbers := missing_words(of_pieces, len(words)):
            yield side, [words[number] for number in numbers]


def normalise_rows(alignment: np.ndarray) -> np.ndarray:
    """Return |A| (T, S) with rows that sum to 1; rows of zeros stay zero."""
    weights = np.abs(alignment)
    total = weights.sum(axis=1, keepdims=True)
    shares: np.ndarray = np.divide(weights, total, out=np.zeros_like(weights), where=total > 0)
    return shares


def merge_pieces(alignment: np.ndarray, source_words: Sequence[int], target_words: Sequence[int]) -> np.ndarray:
    """Return weights (J, I) between words: the sum over a word's source pieces, the mean over its target pieces.

    ``alignment`` (T, S) is raw and without ``</s>``. ``source_words`` (S) and ``target_words`` (T) are the index of
    each piece's word, −1 for none. A source piece of several words has equal parts of its weight for each.
    """
    columns, column_words = _piece_words(source_words)
    rows, row_words = _piece_words(target_words)
    weights = normalise_rows(alignment)[:, columns] / np.bincount(columns)[columns]
    by_source = np.zeros((len(weights), column_words.max(initial=-1) + 1))
    np.add.at(by_source.T, column_words, weights.T)
    summed = np.zeros((row_words.max(initial=-1) + 1, by_source.shape[1]))
    np.add.at(summed, row_words, by_source[rows])
    pieces = np.bincount(row_words, minlength=len(summed))
    mean: np.ndarray = summed / np.maximum(pieces, 1)[:, None]
    return mean


def linked_pieces(linked: np.ndarray, source_words: Sequence[int], target_words: Sequence[int]) -> np.ndarray:
    """Return which pieces (T, S) have linked words; ``linked`` (J, I) is 1 for linked words and 0 for others."""
    columns, column_words = _piece_words(source_words)
    rows, row_words = _piece_words(target_words)
    pieces = np.zeros((len(target_words), len(source_words)))
    np.maximum.at(pieces, np.ix_(rows, columns), linked[np.ix_(row_words, column_words)])
    return pieces


def _piece_words(words: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Return piece and word of each (piece, word), sorted by piece; a piece of n words has n of them."""
    first, last = np.asarray(words, dtype=np.int64), np.asarray(last_words(words), dtype=np.int64)
    counts = np.where(first < 0, 0, last - first + 1)
    pieces = np.repeat(np.arange(len(first)), counts)
    return pieces, np.arange(len(pieces)) - np.repeat(np.cumsum(counts) - counts, counts) + first[pieces]


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
