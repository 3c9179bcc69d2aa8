"""Which target pieces go with which source pieces, learnt from sentence pairs alone.

Brown, Della Pietra, Della Pietra & Mercer (1993), The Mathematics of Statistical Machine Translation: Parameter
Estimation, Computational Linguistics 19(2).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

Ids = np.ndarray


class Translations(NamedTuple):
    """t(f | e) of every pair of pieces that ever met, as arrays (M,), by source piece and then by target piece."""

    source: Ids
    target: Ids
    probability: np.ndarray


def model_1(pairs: Iterable[tuple[Ids, Ids]], *, iterations: int = 5) -> Translations:
    """IBM Model 1 (§4.3, eqs. 11–14) after some iterations of EM from a uniform start, without the empty word.

    ``pairs`` are (source ids (S,), target ids (T,)); S · T numbers are kept for each.
    """
    cells, positions, count = [], [], 0
    for source, target in pairs:
        if not (len(source) and len(target)):
            continue
        cells.append(np.stack([np.repeat(source, len(target)), np.tile(target, len(source))]).astype(np.int64))
        positions.append(np.tile(np.arange(count, count + len(target)), len(source)))
        count += len(target)
    if not cells:
        nothing = np.zeros(0, dtype=np.int64)
        return Translations(nothing, nothing, np.zeros(0))
    (sources, targets), position = np.concatenate(cells, axis=1), np.concatenate(positions)
    size = int(targets.max()) + 1
    met, cell = np.unique(sources * size + targets, return_inverse=True)
    source, target = met // size, met % size
    probability = np.ones(len(met))
    for _ in range(iterations):
        weight = probability[cell]
        weight /= np.bincount(position, weight)[position]  # each target piece is explained once (eq. 13)
        expected = np.bincount(cell, weight, minlength=len(met))
        probability = expected / np.bincount(source, expected)[source]  # (eq. 14)
    return Translations(source, target, probability)
