"""How well the confidence of translations predicts their quality, on text with references."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nmt.inference.scores import sentence_chrf
from nmt.inference.translation import Translation

QUARTERS = 4
FEWEST_LINES = 20


class Calibration(NamedTuple):
    """Spearman's ρ of confidence and chrF, and the highest confidence and mean chrF of each quarter of the lines."""

    correlation: float
    quarters: list[tuple[float, float]]


def calibrate(
    translations: Sequence[Translation], references: Sequence[str], *, lowercase: bool = False
) -> Calibration | None:
    """Compare the confidence of each line with its chrF; None for fewer than ``FEWEST_LINES`` lines."""
    if len(translations) < FEWEST_LINES:
        return None
    chrf = sentence_chrf(lowercase=lowercase)
    pairs = zip(translations, references, strict=True)
    quality = np.array([chrf(translation.text, reference) for translation, reference in pairs])
    confidence = np.array([translation.confidence for translation in translations])
    parts = np.array_split(np.argsort(confidence, kind="stable"), QUARTERS)
    quarters = [(float(confidence[part[-1]]), float(quality[part].mean())) for part in parts]
    return Calibration(rank_correlation(confidence, quality), quarters)


def describe_calibration(calibration: Calibration) -> str:
    """Return a calibration as one line."""
    quarters = ", ".join(f"{chrf:.1f} (up to {highest:.2f})" for highest, chrf in calibration.quarters)
    rho = f"confidence {calibration.correlation:.2f}  Spearman's rho with the chrF of a line"
    return f"{rho}; mean chrF of each quarter of the lines, by confidence: {quarters}"


def rank_correlation(first: Sequence[float] | np.ndarray, second: Sequence[float] | np.ndarray) -> float:
    """Return Spearman's ρ: the correlation of the ranks, where equal values share their mean rank; 0 for constants."""
    ranks, others = (_ranks(np.asarray(values, dtype=np.float64)) for values in (first, second))
    if ranks.std() == 0 or others.std() == 0:
        return 0.0
    return float(np.corrcoef(ranks, others)[0, 1])


def _ranks(values: np.ndarray) -> np.ndarray:
    _, group, counts = np.unique(values, return_inverse=True, return_counts=True)
    means: np.ndarray = counts.cumsum() - (counts - 1) / 2
    return means[group]
