"""From raw alignments between pieces to weights and links between words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nmt.alignment.links import Link

AER_METHOD = (
    "the reference is force-decoded; |A| normalised over the source, </s> dropped; a word's weight is the sum over its "
    "source pieces and the mean over its target pieces; one link per target word, the largest; no symmetrisation"
)


def normalise(alignment: np.ndarray) -> np.ndarray:
    """|A| (T, S) with rows that sum to 1; a row of zeros stays one."""
    weights = np.abs(alignment)
    total = weights.sum(axis=1, keepdims=True)
    shares: np.ndarray = np.divide(weights, total, out=np.zeros_like(weights), where=total > 0)
    return shares


def word_matrix(alignment: np.ndarray, source_words: Sequence[int], target_words: Sequence[int]) -> np.ndarray:
    """Weights (J, I) of target words on source words.

    ``alignment`` (T, S) is raw, between pieces, without ``</s>``; ``source_words`` (S) and ``target_words`` (T) say
    which word each piece belongs to. Sum over a word's source pieces, mean over its target pieces.
    """
    weights = normalise(alignment)
    by_source = np.zeros((len(weights), max(source_words, default=-1) + 1))
    np.add.at(by_source.T, list(source_words), weights.T)
    summed = np.zeros((max(target_words, default=-1) + 1, by_source.shape[1]))
    np.add.at(summed, list(target_words), by_source)
    pieces = np.bincount(np.asarray(target_words, dtype=np.int64), minlength=len(summed))
    mean: np.ndarray = summed / np.maximum(pieces, 1)[:, None]
    return mean


def argmax_links(weights: np.ndarray) -> frozenset[Link]:
    """For each target word of ``weights`` (J, I) the source word with the largest weight; none where all are 0."""
    if not weights.size:
        return frozenset()
    return frozenset((int(row.argmax()), j) for j, row in enumerate(weights) if row.max() > 0)
