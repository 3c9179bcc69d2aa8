"""Attention weights between pieces and between words, computed from the raw alignment of a translation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np


class AlignedTranslation(Protocol):
    """A translation, from search or forced decoding, with its raw alignment between pieces."""

    @property
    def alignment(self) -> np.ndarray | None:
        """Raw alignment (S, T), where S and T count ``</s>``; None if it was not asked for."""
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

    A tokenizer from elsewhere may split, join or lose words: extra words are cut off, missing ones get weight 0.
    """
    weights = word_weights(translation)[: len(target), : len(source)]
    return np.pad(weights, [(0, len(target) - weights.shape[0]), (0, len(source) - weights.shape[1])])


def normalise_rows(alignment: np.ndarray) -> np.ndarray:
    """Return |A| (T, S) with rows that sum to 1; rows of zeros stay zero."""
    weights = np.abs(alignment)
    total = weights.sum(axis=1, keepdims=True)
    shares: np.ndarray = np.divide(weights, total, out=np.zeros_like(weights), where=total > 0)
    return shares


def merge_pieces(alignment: np.ndarray, source_words: Sequence[int], target_words: Sequence[int]) -> np.ndarray:
    """Return weights (J, I) between words: the sum over a word's source pieces, the mean over its target pieces.

    ``alignment`` (T, S) is raw and without ``</s>``. ``source_words`` (S) and ``target_words`` (T) are the index of
    each piece's word.
    """
    weights = normalise_rows(alignment)
    by_source = np.zeros((len(weights), max(source_words, default=-1) + 1))
    np.add.at(by_source.T, list(source_words), weights.T)
    summed = np.zeros((max(target_words, default=-1) + 1, by_source.shape[1]))
    np.add.at(summed, list(target_words), by_source)
    pieces = np.bincount(np.asarray(target_words, dtype=np.int64), minlength=len(summed))
    mean: np.ndarray = summed / np.maximum(pieces, 1)[:, None]
    return mean


def _raw_weights(translation: AlignedTranslation) -> np.ndarray:
    assert translation.alignment is not None, "no alignment: translate with alignments=True"
    return translation.alignment.T
