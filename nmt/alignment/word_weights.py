"""What a translation looked at, by piece and by word."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from nmt.alignment.words import normalise, word_matrix


class Aligned(Protocol):
    """A translation, found or given: raw alignment (S, T) with ``</s>``, and the word of each piece without it."""

    @property
    def alignment(self) -> np.ndarray | None: ...

    @property
    def source_words(self) -> list[int]: ...

    @property
    def target_words(self) -> list[int]: ...


def piece_weights(one: Aligned, *, signed: bool) -> np.ndarray:
    """(T, S) how much target piece t looks at source piece s: as used where ``signed``, else shares of the source."""
    assert one.alignment is not None, "translate with alignments=True"
    return one.alignment.T if signed else normalise(one.alignment.T)


def word_weights(one: Aligned) -> np.ndarray:
    """(J, I) how much target word j looks at source word i, ``</s>`` dropped: see ``nmt.alignment.words``."""
    assert one.alignment is not None, "translate with alignments=True"
    # Cut by the words' lengths: a translation that was cut at its maximum length has no ``</s>`` to drop.
    inner = one.alignment.T[: len(one.target_words), : len(one.source_words)]
    return word_matrix(inner, one.source_words, one.target_words)


def weights_between(one: Aligned, source: Sequence[str], target: Sequence[str]) -> np.ndarray:
    """``word_weights`` with a column for each word of ``source``, a row for each of ``target``, as the text has them.

    A tokenizer from elsewhere may split, join or lose words: words too many are cut off, words too few weigh 0.
    """
    weights, found = np.zeros((len(target), len(source))), word_weights(one)[: len(target), : len(source)]
    weights[: found.shape[0], : found.shape[1]] = found
    return weights
