"""By what hypotheses compete."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nmt.search.engine import Floats, Integers
from nmt.search.history import Endings, History
from nmt.search.options import SearchOptions
from nmt.search.penalties import coverage_penalty, length_penalty

Align = Callable[[int, Floats], Floats]
"""(row of the batch, read weights (T, R)) -> raw alignment (T, S), without padding"""


class Ranking:
    """log P / lp(Y) + cp(X; Y): Wu et al. 2016, eq. 14. Its ceiling is log P / lp(Y), for no cp is above 0."""

    def __init__(self, options: SearchOptions, history: History, align: Align) -> None:
        self._options = options
        self._history = history
        self._align = align

    def ceiling(self, log_prob: Floats, length: Integers | int) -> Floats:
        """The most that hypotheses of ``length`` pieces, ``</s>`` counted, can score."""
        return log_prob / length_penalty(length, self._options.length_penalty)

    def scores(self, endings: Endings) -> Floats:
        """The scores (H,) of hypotheses whose last step is in the history."""
        scores = self.ceiling(endings.log_prob, endings.length + endings.finished)
        strength = self._options.coverage_penalty
        if not strength or not len(scores):
            return scores
        _, weights = self._history.trace(endings)
        for at, (row, reads) in enumerate(zip(endings.sentence, weights, strict=True)):
            assert reads is not None, "coverage is computed from the read weights: keep them"
            scores[at] += coverage_penalty(self._align(int(row), reads), strength)
        return scores

    def of_candidates(
        self, rows: Integers, log_prob: Floats, slots: Integers, length: int, finished: bool, beat: Floats
    ) -> Floats:
        """Scores (b, M) of candidates (b, M) of sentences ``rows``; -inf for those that cannot beat ``beat`` (b,)."""
        scores = self.ceiling(log_prob, length + finished)
        if not self._options.coverage_penalty:
            return scores
        sentence, place = np.nonzero((scores > -np.inf) & (scores > beat[:, None]))
        count = len(sentence)
        endings = Endings(
            rows[sentence],
            np.full(count, length),
            slots[sentence, place],
            log_prob[sentence, place],
            np.full(count, finished),
        )
        found = np.full_like(scores, -np.inf)
        found[sentence, place] = self.scores(endings)
        return found
