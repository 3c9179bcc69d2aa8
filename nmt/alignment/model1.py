"""IBM Model 1: translation probabilities of pieces, learnt from sentence pairs.

Brown, Della Pietra, Della Pietra & Mercer (1993), The Mathematics of Statistical Machine Translation: Parameter
Estimation, Computational Linguistics 19(2).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

Ids = np.ndarray
ITERATIONS = 5


class TranslationTable(NamedTuple):
    """t(f | e) for all M pairs of pieces that occur in a sentence pair: arrays (M,), sorted by source and target."""

    source: Ids
    target: Ids
    probability: np.ndarray


def train_ibm_model_1(pairs: Iterable[tuple[Ids, Ids]]) -> TranslationTable:
    """Return the probabilities after ``ITERATIONS`` of EM from a uniform start (§4.3, eqs. 11–14).

    The model has no empty word. ``pairs`` are (source ids (S,), target ids (T,)). Memory: S · T numbers for each pair.
    """
    cells: list[np.ndarray] = []
    positions: list[np.ndarray] = []
    count = 0
    for source, target in pairs:
        if not (len(source) and len(target)):
            continue
        cells.append(np.stack([np.repeat(source, len(target)), np.tile(target, len(source))]).astype(np.int64))
        positions.append(np.tile(np.arange(count, count + len(target)), len(source)))
        count += len(target)
    if not cells:
        no_ids = np.zeros(0, dtype=np.int64)
        return TranslationTable(no_ids, no_ids, np.zeros(0))
    sources, targets = np.concatenate(cells, axis=1)
    position = np.concatenate(positions)
    size = int(targets.max()) + 1
    pair_ids, cell = np.unique(sources * size + targets, return_inverse=True)
    source = pair_ids // size
    target = pair_ids % size
    probability = np.ones(len(pair_ids))
    for _ in range(ITERATIONS):
        weight = probability[cell]
        weight /= np.bincount(position, weight)[position]  # the weights of each target position sum to 1 (eq. 13)
        expected = np.bincount(cell, weight, minlength=len(pair_ids))
        probability = expected / np.bincount(source, expected)[source]  # (eq. 14)
    return TranslationTable(source, target, probability)
