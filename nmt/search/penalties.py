"""How search trades length for probability."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def length_penalty(length: ArrayLike, alpha: float) -> NDArray[np.float64]:
    """((5 + |Y|) / 6) ** alpha: what a log-probability is divided by (Wu et al. 2016, eq. 14).

    ``length`` counts ``</s>``. alpha = 0 ranks by plain log-probability; larger values favour longer
    translations. It never falls with length where alpha ≥ 0, on which the exact stop of the beam rests.
    """
    return ((5.0 + np.asarray(length, dtype=np.float64)) / 6.0) ** alpha
