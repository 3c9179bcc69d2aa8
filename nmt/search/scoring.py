"""The length penalty, by which the log-probability of a hypothesis is divided."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


def length_penalty(length: ArrayLike, alpha: float) -> NDArray[np.float64]:
    """Return ((5 + |Y|) / 6) ** alpha, the divisor of a log-probability (Wu et al. 2016, eq. 14).

    ``length`` counts ``</s>``. alpha = 0 ranks by plain log-probability; larger values favour longer translations.
    The penalty never falls with the length if alpha ≥ 0. The stopping rule of the beam relies on this.
    """
    # np.power, because ** gives one length another last bit than an array of lengths.
    penalty: NDArray[np.float64] = np.power((5.0 + np.asarray(length, dtype=np.float64)) / 6.0, alpha)
    return penalty
