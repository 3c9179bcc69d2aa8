"""Hypothesis scores: length and coverage penalties."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from nmt.search.engine import Floats, Integers
from nmt.search.history import Endings, History
from nmt.search.options import SearchOptions

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

Align = Callable[[int, Floats], Floats]
"""(row of the batch, read weights (T, R)) -> raw alignment (T, S), without padding"""
MIN_COVERAGE = 1e-9
"""Least coverage of a source piece: with log 0, all hypotheses that leave a piece uncovered would tie at -inf."""


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
        weights = [hypothesis.weights for hypothesis in self._history.trace(endings, scores)]
        for index, (row, reads) in enumerate(zip(endings.sentence, weights, strict=True)):
            assert reads is not None, "the coverage penalty needs a history with keep_weights=True"
            scores[index] += coverage_penalty(self._align(int(row), reads), strength)
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
        sentence, column = np.nonzero((bounds > -np.inf) & (bounds > threshold[:, None]))
        count = len(sentence)
        endings = Endings(
            sentence=rows[sentence],
            length=np.full(count, length),
            slot=slots[sentence, column],
            log_prob=log_prob[sentence, column],
            finished=np.full(count, finished),
        )
        scores = np.full_like(bounds, -np.inf)
        scores[sentence, column] = self.score_endings(endings)
        return scores


def length_penalty(length: ArrayLike, alpha: float) -> NDArray[np.float64]:
    """Return ((5 + |Y|) / 6) ** alpha, the divisor of a log-probability (Wu et al. 2016, eq. 14).

    ``length`` counts ``</s>``. alpha = 0 ranks by plain log-probability; larger values favour longer translations.
    The penalty never falls with the length if alpha ≥ 0. The stopping rule of the beam relies on this.
    """
    # np.power, because ** gives one length another last bit than an array of lengths.
    penalty: NDArray[np.float64] = np.power((5.0 + np.asarray(length, dtype=np.float64)) / 6.0, alpha)
    return penalty


def coverage_penalty(alignment: NDArray[np.floating[Any]], strength: float) -> float:
    """Return β Σ_s log min(Σ_t p_ts, 1), which is ≤ 0, and 0 if every source piece is covered (Wu et al. 2016, eq. 14).

    ``alignment`` (T, S) is raw. p_ts are the shares of target step t, by absolute value. β is ``strength``.
    """
    sizes = np.abs(alignment.astype(np.float64))
    totals = sizes.sum(axis=1, keepdims=True)
    shares = np.divide(sizes, totals, out=np.zeros_like(sizes), where=totals > 0)
    return strength * float(np.log(shares.sum(axis=0).clip(MIN_COVERAGE, 1.0)).sum())
