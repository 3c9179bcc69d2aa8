"""The past of all hypotheses as back-pointers: search copies nothing on its way and reads out only winners.

Time is counted in steps: step t predicts target position t. A hypothesis with t tokens sits in a *slot* of
the axis N that step t - 1 left behind; ``parents`` lead from there to its slot one step earlier.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nmt.search.engine import Booleans, Floats, Integers


class Endings(NamedTuple):
    """H hypotheses that stopped, as arrays (H,): enough to trace each one back and to rank it."""

    sentence: Integers
    """Row of the batch as it was encoded."""
    length: Integers
    """Tokens, without ``</s>``."""
    slot: Integers
    """Where step ``length - 1`` left the hypothesis on the axis N (0 for an empty one)."""
    log_prob: Floats
    finished: Booleans
    """True: step ``length`` then chose ``</s>``."""

    @staticmethod
    def join(parts: list[Endings]) -> Endings:
        """All endings of all parts, in order. There must be at least one part."""
        return Endings(*(np.concatenate(column) for column in zip(*parts, strict=True)))


class Step(NamedTuple):
    """What one step decided for the b sentences that were still in the batch."""

    rows: Integers
    """(b,) rising: which sentences of the encoded batch these are."""
    parents: Integers
    """(b,N) slot that each new hypothesis extends."""
    tokens: Integers
    """(b,N) token that it appends."""
    weights: Floats | None
    """(b,N',R) read weights of the N' hypotheses that made the predictions."""


class History:
    """All steps of one search, from which any hypothesis can be traced back."""

    def __init__(self, *, keep_weights: bool) -> None:
        self._keep_weights = keep_weights
        self._steps: list[Step] = []

    def append(self, rows: Integers, parents: Integers, tokens: Integers, weights: Floats) -> None:
        """Record a step, before the sentences that it ended leave ``rows``. Shapes as in ``Step``."""
        self._steps.append(Step(rows, parents, tokens, weights if self._keep_weights else None))

    def trace(self, endings: Endings) -> tuple[list[list[int]], list[Floats | None]]:
        """(tokens, weights) of each ending: T ids and, if weights are kept, (T + finished, R).

        One walk from the last step to the first, for all endings at once. Rows only ever leave, so they stay
        sorted, and a binary search finds a sentence among the rows of any step.
        """
        sentence, length, slot, _, finished = endings
        slot = slot.copy()
        times = min(len(self._steps), int(length.max(initial=0)) + 1)
        tokens = np.zeros((len(length), times), dtype=np.int64)
        reads = self._empty_reads(len(length), times)
        for time in reversed(range(times)):
            step = self._steps[time]
            here = np.flatnonzero(length > time)
            row = np.searchsorted(step.rows, sentence[here])
            tokens[here, time] = step.tokens[row, slot[here]]
            slot[here] = step.parents[row, slot[here]]
            if reads is not None and step.weights is not None:
                # Only now is it the slot that made the prediction; </s> was predicted from the last one.
                here = np.flatnonzero(length + finished > time)
                row = np.searchsorted(step.rows, sentence[here])
                reads[here, time] = step.weights[row, slot[here]]
        counts = length + finished
        texts = [ids[:count].tolist() for ids, count in zip(tokens, length, strict=True)]
        if reads is None:
            return texts, [None] * len(texts)
        return texts, [read[:count].copy() for read, count in zip(reads, counts, strict=True)]

    def _empty_reads(self, hypotheses: int, times: int) -> Floats | None:
        weights = self._steps[0].weights if self._steps else None
        if weights is None:
            return None
        return np.zeros((hypotheses, times, weights.shape[2]), dtype=weights.dtype)
