"""How search trades length, and what was left unread, for probability."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


def length_penalty(length: ArrayLike, alpha: float) -> NDArray[np.float64]:
    """((5 + |Y|) / 6) ** alpha: what a log-probability is divided by (Wu et al. 2016, eq. 14).

    ``length`` counts ``</s>``. alpha = 0 ranks by plain log-probability; larger values favour longer
    translations. It never falls with length where alpha ≥ 0, on which the exact stop of the beam rests.
    """
    return ((5.0 + np.asarray(length, dtype=np.float64)) / 6.0) ** alpha


UNREAD = 1e-9
"""What a source piece that nothing looked at counts as: the logarithm of 0 would make all such hypotheses equal."""


def coverage_penalty(alignment: NDArray[np.floating[Any]], strength: float) -> float:
    """β Σ_s log min(Σ_t p_ts, 1): never above 0, and 0 where every source piece was looked at (Wu et al. 2016, eq. 14).

    alignment (T, S) is raw; p_ts are its shares of each target step, by absolute value.
    """
    sizes = np.abs(alignment.astype(np.float64))
    totals = sizes.sum(axis=1, keepdims=True)
    shares = np.divide(sizes, totals, out=np.zeros_like(sizes), where=totals > 0)
    return strength * float(np.log(shares.sum(axis=0).clip(UNREAD, 1.0)).sum())
