"""All steps of a search, stored as back-pointers: no prefix is copied, and only the winners are traced back.

Time is counted in steps: step t predicts target position t. A hypothesis with t tokens occupies a *slot* on the
hypothesis axis N after step t - 1. ``parents`` point from there to its slot one step earlier.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nmt.search.engine import Booleans, Floats, Integers


class Endings(NamedTuple):
    """H hypotheses that have stopped, as arrays (H,): what is needed to trace each back and to score it."""

    sentence: Integers
    """Row of the encoded batch."""
    length: Integers
    """Number of tokens, without ``</s>``."""
    slot: Integers
    """Slot on the axis N after step ``length - 1`` (0 for an empty hypothesis)."""
    log_prob: Floats
    """Natural log-probability of the tokens, and of ``</s>`` where ``finished``."""
    finished: Booleans
    """True where step ``length`` chose ``</s>``; False where the hypothesis was cut."""

    @staticmethod
    def concatenate(parts: list[Endings]) -> Endings:
        """Return the endings of all parts, in order. There must be at least one part."""
        return Endings(*(np.concatenate(column) for column in zip(*parts, strict=True)))


class Step(NamedTuple):
    """The choices of one step for the b sentences that were still in the batch."""

    rows: Integers
    """(b,) rows of these sentences in the encoded batch, in ascending order."""
    parents: Integers
    """(b,N) slot that each new hypothesis extends."""
    tokens: Integers
    """(b,N) token that it appends."""
    weights: Floats | None
    """(b,N',R) read weights of the N' hypotheses that made the predictions."""


class History:
    """The steps of one search, from which any hypothesis can be traced back."""

    def __init__(self, *, keep_weights: bool) -> None:
        self._keep_weights = keep_weights
        self._steps: list[Step] = []

    def append(self, rows: Integers, parents: Integers, tokens: Integers, weights: Floats) -> None:
        """Record a step. ``rows`` still contain the sentences that it ended. Shapes as in ``Step``."""
        self._steps.append(Step(rows, parents, tokens, weights if self._keep_weights else None))

    def trace(self, endings: Endings) -> tuple[list[list[int]], list[Floats | None]]:
        """Return (tokens, weights) of each ending: T ids and, if weights are kept, (T + finished, R).

        Walks once from the last step to the first, for all endings together. Sentences only leave the batch, so
        ``rows`` stay sorted and a binary search locates a sentence in any step.
        """
        sentence, length, slot, _, finished = endings
        slot = slot.copy()
        times = min(len(self._steps), int(length.max(initial=0)) + 1)
        tokens = np.zeros((len(length), times), dtype=np.int64)
        reads = self._empty_reads(len(length), times)
        for time in reversed(range(times)):
            step = self._steps[time]
            active = np.flatnonzero(length > time)
            row = np.searchsorted(step.rows, sentence[active])
            tokens[active, time] = step.tokens[row, slot[active]]
            slot[active] = step.parents[row, slot[active]]
            if reads is not None and step.weights is not None:
                # ``slot`` is now the hypothesis that made the prediction. It is also right for </s>, which has no slot.
                active = np.flatnonzero(length + finished > time)
                row = np.searchsorted(step.rows, sentence[active])
                reads[active, time] = step.weights[row, slot[active]]
        counts = length + finished
        texts = [ids[:count].tolist() for ids, count in zip(tokens, length, strict=True)]
        if reads is None:
            return texts, [None] * len(texts)
        return texts, [read[:count].copy() for read, count in zip(reads, counts, strict=True)]

    def _empty_reads(self, hypotheses: int, times: int) -> Floats | None:
        """Return zeros (H, times, R) for read weights, or None if they are not kept."""
        weights = self._steps[0].weights if self._steps else None
        if weights is None:
            return None
        return np.zeros((hypotheses, times, weights.shape[2]), dtype=weights.dtype)


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
