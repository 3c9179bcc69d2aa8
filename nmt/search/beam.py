"""Beam search with N live hypotheses. A sentence stops when no live hypothesis can still win."""

from __future__ import annotations

from typing import Any

import numpy as np

from nmt.search.engine import Booleans, Engine, Floats, Integers, Source, State
from nmt.search.history import Candidates, Endings, History
from nmt.search.options import SearchOptions
from nmt.search.scoring import Scorer, length_penalty
from nmt.text.specials import BOS, EOS


def beam_search(
    engine: Engine[Source, State],
    source: Source,
    limits: Integers,
    options: SearchOptions,
    history: History,
    scorer: Scorer,
) -> Endings:
    """Return the best endings per sentence that a beam of ``beam_size`` (N) finds: ``n_best`` or fewer.

    Each step ranks the N·k candidates of a sentence. Candidates among the first N that end in ``</s>`` are finished.
    The best N other candidates stay alive, so a finished hypothesis never narrows the beam. ``limits`` (B,) are the
    maximum numbers of target pieces, without ``</s>``. If nothing has finished by then, the live hypotheses are
    returned unfinished.
    """
    n_best = _NBest(len(limits), options.n_best)
    state = engine.init(source)
    rows = np.arange(len(limits))
    live: Floats = np.zeros((len(rows), 1))
    tokens = np.full((len(rows), 1), BOS)
    parents = np.zeros_like(tokens)
    # Log-probabilities never rise, and the largest length penalty brings them closest to 0: an upper bound.
    largest_penalty = length_penalty(limits + 1, options.length_penalty)
    first_limit = int(limits.min())
    # One candidate of a hypothesis may be </s>, and N others must be able to stay alive.
    k = options.beam_size + 1

    def merge(rows: Integers, endings: Candidates, finished: bool) -> None:
        worst = n_best.worst_score(rows)
        scores = scorer.score_candidates(rows, endings.log_prob, endings.parents, time, finished, worst)
        n_best.merge(rows, endings, scores, time, finished=finished)

    for time in range(int(limits.max()) + 1):
        state, log_probs, ids, weights = engine.step(state, tokens, parents, k, options.banned(time))
        ended, alive = _split_candidates(_extend(live, log_probs), ids, options.beam_size)
        parents, tokens = alive.parents, alive.tokens
        history.append(rows, parents, tokens, alive.log_prob, weights)
        if ended is not None:
            merge(rows, ended, finished=True)

        previous, live = live, alive.log_prob
        if time >= first_limit:
            live = np.where((limits[rows] == time)[:, None], -np.inf, live)
        over = live[:, 0] / largest_penalty[rows] <= n_best.worst_score(rows)
        if np.count_nonzero(over):
            cut = np.flatnonzero(over & ~n_best.has_any(rows))
            slots = np.broadcast_to(np.arange(previous.shape[1]), previous[cut].shape)
            merge(rows[cut], Candidates(previous[cut], slots, np.full_like(slots, EOS)), finished=False)
            keep = np.flatnonzero(~over)
            if not keep.size:
                break
            state = engine.drop(state, keep)
            rows, live, parents, tokens = rows[keep], live[keep], parents[keep], tokens[keep]
    return n_best.endings()


def _extend(live: Floats, log_probs: Floats) -> Floats:
    """Return the log-probabilities (b,N,k) of all candidates; NaN and infinite ones become -inf."""
    if not log_probs.max() < np.inf:  # false if one is NaN, too
        log_probs = np.where(np.isfinite(log_probs), log_probs, -np.inf)
    return live[:, :, None] + log_probs


def _split_candidates(log_probs: Floats, ids: Integers, width: int) -> tuple[Candidates | None, Candidates]:
    """Split the candidates (b,N,k) with tokens ``ids`` into ended (None without any) and live ones.

    They are ranked by log-probability. Ties go to the earlier slot.
    """
    sentences, _, k = log_probs.shape
    flat = log_probs.reshape(sentences, -1)
    # At most N of the first 2 N candidates end, one per hypothesis, so at least N are left to fill the beam.
    order = (-flat).argsort(axis=1, kind="stable")[:, : 2 * width]
    log_prob, tokens = _take(order, flat, ids.reshape(sentences, -1))
    parents = order // k
    ends = tokens == EOS
    if not np.count_nonzero(ends):
        return None, Candidates(log_prob[:, :width], parents[:, :width], tokens[:, :width])

    ended = Candidates(np.where(ends, log_prob, -np.inf)[:, :width], parents[:, :width], tokens[:, :width])
    others = ends.argsort(axis=1, kind="stable")[:, :width]
    return ended, Candidates(*_take(others, np.where(ends, -np.inf, log_prob), parents, tokens))


def _take(columns: Integers, *arrays: Any) -> tuple[Any, ...]:
    """Return the values of each array (b,M) in these columns (b,·) of its rows, faster than ``np.take_along_axis``."""
    indices = _flat(columns, arrays[0].shape[1])
    return tuple([array.take(indices) for array in arrays])


def _flat(columns: Integers, width: int) -> Integers:
    """Return the positions of these columns (b,·) of the rows of an array (b, width) in the flat array."""
    return columns if len(columns) == 1 else columns + np.arange(0, len(columns) * width, width)[:, None]


class _NBest:
    """The n best endings of each of B sentences, best first.

    Each is a column of five numbers in one array (5,B,n): its score, log-probability, length, slot, and 1 if it is
    finished. A score of -inf marks an unused entry.
    """

    def __init__(self, sentences: int, n_best: int) -> None:
        self._entries = np.zeros((5, sentences, n_best))
        self._score = self._entries[0]
        self._score[:] = -np.inf

    def merge(self, rows: Integers, candidates: Candidates, score: Floats, length: int, *, finished: bool) -> None:
        """Merge these hypotheses into the n-best lists of ``rows``; an older ending wins a tie."""
        (improved,) = (score > self._score[rows, -1:]).any(axis=1).nonzero()
        if not improved.size:
            return
        new = np.empty((5, *score.shape))
        for column, values in enumerate((score, candidates.log_prob, length, candidates.parents, finished)):
            new[column] = values
        rows = rows[improved]
        entries = np.concatenate([self._entries.take(rows, axis=1), new.take(improved, axis=1)], axis=2)
        order = (-entries[0]).argsort(axis=1, kind="stable")[:, : self._score.shape[1]]
        self._entries[:, rows] = entries.reshape(5, -1).take(_flat(order, entries.shape[2]), axis=1)

    def worst_score(self, rows: Integers) -> Floats:
        """Return the score (b,) that a new ending must exceed; -inf while an entry is unused."""
        worst: Floats = self._score[rows, -1]
        return worst

    def has_any(self, rows: Integers) -> Booleans:
        """Return (b,) whether each sentence has at least one ending."""
        has_ending: Booleans = self._score[rows, 0] > -np.inf
        return has_ending

    def endings(self) -> Endings:
        """Return all endings, sentence by sentence, best first."""
        row, rank = np.nonzero(self._score > -np.inf)
        _, log_prob, length, slot, finished = self._entries[:, row, rank]
        return Endings(
            sentence=row,
            length=length.astype(np.int64),
            slot=slot.astype(np.int64),
            log_prob=log_prob,
            finished=finished > 0,
        )
