"""Length and coverage penalties of hypothesis scores."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

MIN_COVERAGE = 1e-9
"""Least coverage of a source piece: with log 0, all hypotheses that leave a piece uncovered would tie at -inf."""


def length_penalty(length: ArrayLike, alpha: float) -> NDArray[np.float64]:
    """Return ((5 + |Y|) / 6) ** alpha, the divisor of a log-probability (Wu et al. 2016, eq. 14).

    ``length`` counts ``</s>``. alpha = 0 ranks by plain log-probability; larger values favour longer translations.
    The penalty never falls with the length if alpha ≥ 0. The stopping rule of the beam relies on this.
    """
    return ((5.0 + np.asarray(length, dtype=np.float64)) / 6.0) ** alpha


def coverage_penalty(alignment: NDArray[np.floating[Any]], strength: float) -> float:
    """Return β Σ_s log min(Σ_t p_ts, 1), which is ≤ 0, and 0 if every source piece is covered (Wu et al. 2016, eq. 14).

    ``alignment`` (T, S) is raw. p_ts are the shares of target step t, by absolute value. β is ``strength``.
    """
    sizes = np.abs(alignment.astype(np.float64))
    totals = sizes.sum(axis=1, keepdims=True)
    shares = np.divide(sizes, totals, out=np.zeros_like(sizes), where=totals > 0)
    return strength * float(np.log(shares.sum(axis=0).clip(MIN_COVERAGE, 1.0)).sum())
