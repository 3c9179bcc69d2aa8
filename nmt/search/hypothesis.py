"""One translation, as search found it."""

from __future__ import annotations

from typing import NamedTuple

from nmt.search.engine import Floats


class Hypothesis(NamedTuple):
    """A target sentence, its probability under the model, and what it looked at."""

    tokens: list[int]
    """T piece ids, without ``<s>`` and ``</s>``."""
    log_prob: float
    """Natural log-probability: the sum over the tokens and, where ``finished``, ``</s>``."""
    score: float
    """``log_prob / length_penalty(length)``, where the length counts ``</s>``: what the ranking goes by."""
    finished: bool
    """True: ended by ``</s>``. False: cut at the maximum length (or where no number was finite any more)."""
    weights: Floats | None = None
    """Read weights (T+1, R), one row a prediction, the last one that of ``</s>`` (T rows if not finished)."""
    alignment: Floats | None = None
    """The same reads as raw alignment with the source (T+1, S): may be signed, rows need not sum to 1."""
