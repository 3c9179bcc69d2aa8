"""How well the confidence of translations predicts their quality, on text with references."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nmt.inference.scores import sentence_chrf
from nmt.inference.translation import Translation

FEWEST_LINES = 20


def calibrate(
    translations: Sequence[Translation], references: Sequence[str], *, lowercase: bool = False
) -> float | None:
    """Return Spearman's ρ of the confidence of lines and their chrF; None for fewer than ``FEWEST_LINES`` lines."""
    if len(translations) < FEWEST_LINES:
        return None
    chrf = sentence_chrf(lowercase=lowercase)
    quality = [chrf(best.text, reference) for best, reference in zip(translations, references, strict=True)]
    return rank_correlation([best.confidence for best in translations], quality)


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Return Spearman's ρ: the correlation of the ranks, where equal values share their mean rank; 0 for constants."""
    ranks, others = _ranks(first), _ranks(second)
    if ranks.std() == 0 or others.std() == 0:
        return 0.0
    return float(np.corrcoef(ranks, others)[0, 1])


def _ranks(values: Sequence[float]) -> np.ndarray:
    _, group, counts = np.unique(values, return_inverse=True, return_counts=True)
    means: np.ndarray = counts.cumsum() - (counts - 1) / 2
    return means[group]
