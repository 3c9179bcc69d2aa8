"""Hypothesis scores: length and coverage penalties."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nmt.search.engine import Floats, Integers
from nmt.search.history import Endings, History
from nmt.search.options import SearchOptions
from nmt.search.penalties import coverage_penalty, length_penalty

Align = Callable[[int, Floats], Floats]
"""(row of the batch, read weights (T, R)) -> raw alignment (T, S), without padding"""


class Scorer:
    """Scores hypotheses by log P / lp(Y) + cp(X; Y) (Wu et al. 2016, eq. 14).

    The coverage penalty cp is never positive, so log P / lp(Y) is an upper bound.
    """

    def __init__(self, options: SearchOptions, history: History, align: Align) -> None:
        self._options = options
        self._history = history
        self._align = align

    def upper_bound(self, log_prob: Floats, length: Integers | int) -> Floats:
        """Return the highest possible scores of hypotheses of ``length`` pieces, ``</s>`` included."""
        return log_prob / length_penalty(length, self._options.length_penalty)

    def score_endings(self, endings: Endings) -> Floats:
        """Return the scores (H,) of hypotheses whose last step is in the history."""
        scores = self.upper_bound(endings.log_prob, endings.length + endings.finished)
        strength = self._options.coverage_penalty
        if not strength or not len(scores):
            return scores
        _, weights = self._history.trace(endings)
        for at, (row, reads) in enumerate(zip(endings.sentence, weights, strict=True)):
            assert reads is not None, "the coverage penalty needs a history with keep_weights=True"
            scores[at] += coverage_penalty(self._align(int(row), reads), strength)
        return scores

    def score_candidates(
        self, rows: Integers, log_prob: Floats, slots: Integers, length: int, finished: bool, threshold: Floats
    ) -> Floats:
        """Return the scores (b, M) of candidates (b, M) of the sentences ``rows`` (b,).

        With a coverage penalty, candidates that cannot exceed ``threshold`` (b,) are skipped and get -inf.
        """
        bounds = self.upper_bound(log_prob, length + finished)
        if not self._options.coverage_penalty:
            return bounds
        sentence, place = np.nonzero((bounds > -np.inf) & (bounds > threshold[:, None]))
        count = len(sentence)
        endings = Endings(
            sentence=rows[sentence],
            length=np.full(count, length),
            slot=slots[sentence, place],
            log_prob=log_prob[sentence, place],
            finished=np.full(count, finished),
        )
        scores = np.full_like(bounds, -np.inf)
        scores[sentence, place] = self.score_endings(endings)
        return scores
