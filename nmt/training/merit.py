"""How the models of a run are compared: by ``training.monitor``, and by validation loss where it cannot decide."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

LOSS = "valid_loss"
PERCENT = ("valid_bleu", "valid_chrf")
NEAR_ZERO = 1.0  # smoothing and chance make up a BLEU below 1
DECIMALS = 2  # those that the run prints

Merit = tuple[float, float]


def merit(values: Mapping[str, Any], monitor: str) -> Merit:
    """Return a pair that compares as larger for the better model.

    The monitored score comes first. BLEU and chrF are rounded to two decimals, and below 1 they count as 0. Equal
    scores are compared by ``valid_loss``, the smaller the better.
    """
    loss = -float(values[LOSS])
    if monitor == LOSS:
        return loss, loss
    score = float(values[monitor])
    if monitor in PERCENT:
        score = 0.0 if score < NEAR_ZERO else round(score, DECIMALS)
    return score, loss
