"""The result of a search: one translation of one sentence."""

from __future__ import annotations

from typing import NamedTuple

from nmt.search.engine import Floats


class Hypothesis(NamedTuple):
    """A target sentence with its probability under the model and, on request, its attention weights."""

    tokens: list[int]
    """T piece ids, without ``<s>`` and ``</s>``."""
    log_prob: float
    """Natural log-probability: the sum over the tokens and, if ``finished``, ``</s>``."""
    score: float
    """Hypotheses are ranked by this: ``log_prob / length_penalty(length)`` plus the coverage penalty.

    The length counts ``</s>`` if ``finished``.
    """
    finished: bool
    """True: ended by ``</s>``. False: cut at the maximum length."""
    weights: Floats | None = None
    """Read weights (T+1, R), one row per prediction, the last for ``</s>`` (T rows if not finished)."""
    alignment: Floats | None = None
    """The same reads as raw alignment with the source (T+1, S): may be signed, rows need not sum to 1."""
