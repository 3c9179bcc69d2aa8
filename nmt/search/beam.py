"""Beam search that keeps N hypotheses alive and stops exactly when none of them can still win."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nmt.search.engine import BANNED, Booleans, Engine, Floats, Integers, Source, State
from nmt.search.history import Endings, History
from nmt.search.options import SearchOptions
from nmt.search.ranking import Ranking
from nmt.text.specials import BOS, EOS


def beam_search(
    engine: Engine[Source, State],
    source: Source,
    limits: Integers,
    options: SearchOptions,
    history: History,
    ranking: Ranking,
) -> Endings:
    """Up to ``n_best`` endings a sentence, the best that a beam of ``beam_size`` finds.

    Every step ranks the N·k candidates of a sentence. Those among the first N that end in ``</s>`` are
    finished; the best N others live on: a finished hypothesis never narrows the beam. ``limits`` (B,) are the
    most target pieces, without ``</s>``; where nothing has finished by then, the live hypotheses are returned
    as they are.
    """
    width = options.beam_size
    best = _Best(len(limits), options.n_best)
    state = engine.init(source)
    rows = np.arange(len(limits))
    live = np.zeros((len(rows), 1))
    tokens = np.full((len(rows), 1), BOS)
    parents = np.zeros_like(tokens)
    for time in range(int(limits.max()) + 1):
        # k = N + 1: one candidate of a hypothesis may be </s>, and N others must be able to live on.
        state, log_probs, ids, weights = engine.step(state, tokens, parents, width + 1, BANNED)
        ended, alive = _choose(_extend(live, log_probs), ids, width)
        parents, tokens = alive.parents, alive.tokens
        history.append(rows, parents, tokens, weights)
        scores = ranking.of_candidates(rows, ended.log_prob, ended.parents, time, True, best.worst(rows))
        best.offer(rows, ended, scores, time, finished=True)

        before, live = live, np.where((limits[rows] == time)[:, None], -np.inf, alive.log_prob)
        # Log-probabilities only fall, and the largest penalty brings them nearest to 0: no future beats this.
        over = ranking.ceiling(live.max(axis=1), limits[rows] + 1) <= best.worst(rows)
        if over.any():
            stuck = np.flatnonzero(over & ~best.any(rows))
            cut = _Ranked.of_live(before[stuck])
            nothing = np.full(len(stuck), -np.inf)
            scores = ranking.of_candidates(rows[stuck], cut.log_prob, cut.parents, time, False, nothing)
            best.offer(rows[stuck], cut, scores, time, finished=False)
            keep = np.flatnonzero(~over)
            if not keep.size:
                break
            state = engine.drop(state, keep)
            rows, live, parents, tokens = rows[keep], live[keep], parents[keep], tokens[keep]
    return best.endings()


class _Ranked(NamedTuple):
    """Hypotheses of each sentence, best first: arrays (b,M); -inf stands for none."""

    log_prob: Floats
    parents: Integers
    tokens: Integers

    @staticmethod
    def of_live(log_prob: Floats) -> _Ranked:
        """The live hypotheses themselves, each in its own slot."""
        slots = np.broadcast_to(np.arange(log_prob.shape[1]), log_prob.shape)
        return _Ranked(log_prob, slots, np.full(log_prob.shape, EOS))


def _extend(live: Floats, log_probs: Floats) -> Floats:
    """Log-probabilities (b,N,k) of all candidates; whatever is not a finite number is impossible."""
    gains = np.where(np.isfinite(log_probs), log_probs.astype(np.float64), -np.inf)
    return live[:, :, None] + gains


def _choose(candidates: Floats, ids: Integers, width: int) -> tuple[_Ranked, _Ranked]:
    """(ended, alive) of the candidates (b,N,k) with tokens ``ids``; ties go to the earlier slot."""
    sentences, _, k = candidates.shape
    flat = candidates.reshape(sentences, -1)
    # At most N of the first 2 N end, one for each hypothesis: the rest is enough to fill the beam.
    order = np.argsort(-flat, axis=1, kind="stable")[:, : 2 * width]
    log_prob = np.take_along_axis(flat, order, axis=1)
    tokens = np.take_along_axis(ids.reshape(sentences, -1), order, axis=1)
    parents = order // k
    ends = tokens == EOS

    ended = np.where(ends, log_prob, -np.inf)[:, :width]
    others = np.argsort(ends, axis=1, kind="stable")[:, :width]
    alive = np.take_along_axis(np.where(ends, -np.inf, log_prob), others, axis=1)
    heirs = np.take_along_axis(parents, others, axis=1), np.take_along_axis(tokens, others, axis=1)
    return _Ranked(ended, parents[:, :width], tokens[:, :width]), _Ranked(alive, *heirs)


class _Best:
    """The n best endings so far of each of B sentences: arrays (B,n), best first; score -inf: none."""

    def __init__(self, sentences: int, n_best: int) -> None:
        shape = (sentences, n_best)
        self._score = np.full(shape, -np.inf)
        self._log_prob = np.full(shape, -np.inf)
        self._length = np.zeros(shape, dtype=np.int64)
        self._slot = np.zeros(shape, dtype=np.int64)
        self._finished = np.zeros(shape, dtype=np.bool_)

    def offer(self, rows: Integers, ranked: _Ranked, score: Floats, length: int, *, finished: bool) -> None:
        """Let these compete for the places of the sentences ``rows``; an older ending wins a tie."""
        wanted = np.flatnonzero((score > -np.inf).any(axis=1))
        if not wanted.size:
            return
        rows, score = rows[wanted], score[wanted]
        everyone = np.concatenate([self._score[rows], score], axis=1)
        order = np.argsort(-everyone, axis=1, kind="stable")[:, : self._score.shape[1]]
        for column, new in (
            (self._score, score),
            (self._log_prob, ranked.log_prob[wanted]),
            (self._length, np.full(score.shape, length)),
            (self._slot, ranked.parents[wanted]),
            (self._finished, np.full(score.shape, finished)),
        ):
            column[rows] = np.take_along_axis(np.concatenate([column[rows], new], axis=1), order, axis=1)

    def worst(self, rows: Integers) -> Floats:
        """(b,) the score that a newcomer must beat; -inf while there is room."""
        worst: Floats = self._score[rows, -1]
        return worst

    def any(self, rows: Integers) -> Booleans:
        """(b,) whether a sentence has an ending at all."""
        found: Booleans = self._score[rows, 0] > -np.inf
        return found

    def endings(self) -> Endings:
        sentence, place = np.nonzero(self._score > -np.inf)
        return Endings(
            sentence,
            self._length[sentence, place],
            self._slot[sentence, place],
            self._log_prob[sentence, place],
            self._finished[sentence, place],
        )
