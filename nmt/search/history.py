"""Hypotheses and all steps of a search, stored as back-pointers: only the winners are traced back.

Time is counted in steps: step t predicts target position t. A hypothesis with t tokens occupies a *slot* on the
hypothesis axis N after step t - 1. ``parents`` point from there to its slot one step earlier.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nmt.search.engine import Booleans, Floats, Integers


class Candidates(NamedTuple):
    """M candidates per sentence, best first: arrays (b,M). A log-probability of -inf marks an unused entry."""

    log_prob: Floats
    parents: Integers
    tokens: Integers


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
    token_log_probs: list[float]
    """Log-probability of each token, and of ``</s>`` if ``finished``; they sum to ``log_prob``."""
    weights: Floats | None = None
    """Read weights (T+1, R), one row per prediction, the last for ``</s>`` (T rows if not finished)."""
    alignment: Floats | None = None
    """The same reads as raw alignment with the source (T+1, S): may be signed, rows need not sum to 1."""


class Step(NamedTuple):
    """The choices of one step for the b sentences that were still in the batch."""

    rows: Integers
    """(b,) rows of these sentences in the encoded batch, in ascending order."""
    parents: Integers
    """(b,N) slot that each new hypothesis extends."""
    tokens: Integers
    """(b,N) token that it appends."""
    log_probs: Floats
    """(b,N) log-probability of the hypothesis with this token."""
    weights: Floats | None
    """(b,N',R) read weights of the N' hypotheses that made the predictions."""


class History:
    """The steps of one search, from which any hypothesis can be traced back."""

    def __init__(self, *, keep_weights: bool) -> None:
        self._keep_weights = keep_weights
        self._steps: list[Step] = []

    def append(self, rows: Integers, parents: Integers, tokens: Integers, log_probs: Floats, weights: Floats) -> None:
        """Record a step. ``rows`` still contain the sentences that it ended. Shapes as in ``Step``."""
        self._steps.append(
            Step(
                rows=rows,
                parents=parents,
                tokens=tokens,
                log_probs=log_probs,
                weights=weights if self._keep_weights else None,
            )
        )

    def trace(self, endings: Endings, scores: Floats) -> list[Hypothesis]:
        """Return the hypotheses of the endings, which have these ``scores`` (H,), with weights if they are kept.

        Walks once from the last step to the first, for all endings together: ``indices`` are their hypotheses in the
        concatenated steps. Steps after the end of a hypothesis do not change its slot, and their entries in ``indices``
        are not used.
        """
        sentence, length, slot, _, finished = endings
        times = min(len(self._steps), int(length.max(initial=0)) + 1)
        steps = self._steps[:times]
        indices = np.zeros((len(length), times), dtype=np.int64)
        weights = steps[0].weights if steps else None
        reads = None if weights is None else np.zeros((len(length), times, weights.shape[2]), dtype=weights.dtype)
        shortest = int(length.min(initial=times))
        rows, row = None, sentence
        for time in reversed(range(times)):
            step = steps[time]
            if step.rows is not rows:  # sentences only leave the batch, so rows stay sorted
                rows = step.rows
                row = np.minimum(np.searchsorted(rows, sentence), len(rows) - 1)
            indices[:, time] = index = row * step.tokens.shape[1] + slot
            parents = step.parents.take(index, mode="clip")
            slot = parents if time < shortest else np.where(length > time, parents, slot)
            if reads is not None and step.weights is not None:
                # ``slot`` is now the hypothesis that made the prediction. It is also right for </s>, which has no slot.
                active = length + finished > time
                reads[active, time] = step.weights[row[active], slot[active]]
        totals = np.zeros((len(length), times + 2))
        tokens = np.zeros_like(indices)
        if times:
            indices += np.cumsum([0, *(step.tokens.size for step in steps[:-1])])
            tokens = np.concatenate([step.tokens.ravel() for step in steps]).take(indices, mode="clip")
            gathered = np.concatenate([step.log_probs.ravel() for step in steps]).take(indices, mode="clip")
            totals[:, 1:-1] = np.where(np.arange(times) < length[:, None], gathered, 0.0)
        totals[np.arange(len(length)), length + 1] = endings.log_prob  # with </s>, where it has one
        log_probs = totals[:, 1:] - totals[:, :-1]
        return [
            Hypothesis(
                tokens=tokens[index, : length[index]].tolist(),
                log_prob=float(endings.log_prob[index]),
                score=float(scores[index]),
                finished=bool(finished[index]),
                token_log_probs=log_probs[index, :count].tolist(),
                weights=None if reads is None else reads[index, :count].copy(),
            )
            for index, count in enumerate(length + finished)
        ]
