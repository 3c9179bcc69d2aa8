"""Beam search with N live hypotheses. A sentence stops when no live hypothesis can still win."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nmt.search.engine import Booleans, Engine, Floats, Integers, Source, State
from nmt.search.history import Candidates, Endings, History
from nmt.search.options import SearchOptions
from nmt.search.required import Banks, RequiredTexts
from nmt.search.scoring import Scorer, length_penalty
from nmt.text.specials import BOS, EOS


def beam_search(
    engine: Engine[Source, State],
    source: Source,
    limits: Integers,
    options: SearchOptions,
    history: History,
    scorer: Scorer,
    required: Sequence[RequiredTexts] | None = None,
) -> Endings:
    """Return the best endings per sentence that a beam of ``beam_size`` (N) finds: ``n_best`` or fewer of each group.

    Each step ranks the N·k candidates of a sentence. Candidates among the first N that end in ``</s>`` are finished.
    The best N other candidates stay alive, so a finished hypothesis never narrows the beam. ``limits`` (B,) are the
    maximum numbers of target pieces, without ``</s>``. If nothing has finished by then, the live hypotheses are
    returned unfinished.

    With several ``groups``, each is a beam of N / groups that avoids the pieces of the groups before it, by
    ``diversity``, and has its own n-best list (diverse beam search: Vijayakumar et al. 2016, arXiv 1610.02424). A
    sentence then stops when no group can improve its list. With ``required`` texts of each sentence, see ``Banks``.
    """
    groups = options.groups
    n_best = _NBest(len(limits) * groups, min(options.n_best, options.beam_size // groups))
    selection = _Groups(options) if required is None else Banks(required, options.beam_size)
    state = engine.init(source)
    rows = np.arange(len(limits))
    lists, list_rows = _n_best_lists(rows, groups)
    live: Floats = np.zeros((len(rows), 1))
    tokens = np.full((len(rows), 1), BOS)
    parents = np.zeros_like(tokens)
    # Log-probabilities never rise, and the largest length penalty brings them closest to 0: an upper bound.
    largest_penalty = length_penalty(limits + 1, options.length_penalty)
    first_limit = int(limits.min())
    for time in range(int(limits.max()) + 1):
        state, log_probs, ids, weights = engine.step(state, tokens, parents, selection.k, options.banned(time))
        ended, alive = selection.split(live, log_probs, ids)
        parents, tokens = alive.parents, alive.tokens
        history.append(rows, parents, tokens, alive.log_prob, weights)
        if ended is not None:
            ended = ended.in_groups(groups)
            worst = n_best.worst_score(lists)
            scores = scorer.score_candidates(list_rows, ended.log_prob, ended.parents, time, True, worst)
            n_best.merge(lists, ended, scores, time, finished=True)

        previous, live = selection.acceptable(live), alive.log_prob
        if time >= first_limit:
            live = np.where((limits[rows] == time)[:, None], -np.inf, live)
        over = _is_over(live, largest_penalty[list_rows], n_best.worst_score(lists), groups)
        if np.count_nonzero(over):
            unfinished = np.flatnonzero(over & ~n_best.has_any(lists).reshape(-1, groups).any(axis=1))
            _merge_unfinished(n_best, scorer, rows[unfinished], previous[unfinished], time, groups)
            keep = np.flatnonzero(~over)
            if not keep.size:
                break
            state = engine.drop(state, keep)
            selection.drop(keep)
            rows, live, parents, tokens = rows[keep], live[keep], parents[keep], tokens[keep]
            lists, list_rows = _n_best_lists(rows, groups)
    return n_best.endings(groups)


class _Groups:
    """Chooses the candidates that go on, group by group (see ``Banks`` for the other way)."""

    def __init__(self, options: SearchOptions) -> None:
        self._options = options
        # One candidate of a hypothesis may be </s>, and N others must be able to stay alive.
        self.k = options.beam_size + 1

    def split(self, live: Floats, log_probs: Floats, ids: Integers) -> tuple[Candidates | None, Candidates]:
        """Return the candidates that end (None without any), and the best others of each group."""
        return _split_groups(_extend(live, log_probs), ids, self._options)

    def acceptable(self, live: Floats) -> Floats:
        """Return the log-probabilities of the hypotheses before the last step that may be cut: of all."""
        return live

    def drop(self, keep: Integers) -> None:
        """Keep the sentences ``keep`` only."""


def _is_over(live: Floats, largest_penalty: Floats, worst_score: Floats, groups: int) -> Booleans:
    """Return (b,) whether no live hypothesis of a sentence can still enter one of its n-best lists (b·G,)."""
    # Without groups, live hypotheses are sorted, best first.
    best_live = live[:, 0] if groups == 1 else live.reshape(len(worst_score), live.shape[1] // groups).max(axis=1)
    over: Booleans = best_live / largest_penalty <= worst_score
    if groups > 1:
        over = np.logical_and.reduce(over.reshape(-1, groups), axis=1)
    return over


def _merge_unfinished(n_best: _NBest, scorer: Scorer, rows: Integers, live: Floats, time: int, groups: int) -> None:
    """Merge the live hypotheses (b,N) of the sentences ``rows``, which no piece of this step continues."""
    cut = Candidates.from_live(live).in_groups(groups)
    lists, list_rows = _n_best_lists(rows, groups)
    threshold = np.full(len(lists), -np.inf)
    scores = scorer.score_candidates(list_rows, cut.log_prob, cut.parents, time, False, threshold)
    n_best.merge(lists, cut, scores, time, finished=False)


def _n_best_lists(rows: Integers, groups: int) -> tuple[Integers, Integers]:
    """Return the n-best list of each group of the sentences ``rows`` (b,), and the sentence of each: arrays (b·G,)."""
    if groups == 1:
        return rows, rows
    return (rows[:, None] * groups + np.arange(groups)).ravel(), rows.repeat(groups)


def _extend(live: Floats, log_probs: Floats) -> Floats:
    """Return the log-probabilities (b,N,k) of all candidates; NaN and infinite ones become -inf."""
    if not log_probs.max() < np.inf:  # false if one is NaN, too
        log_probs = np.where(np.isfinite(log_probs), log_probs, -np.inf)
    return live[:, :, None] + log_probs


def _split_groups(log_probs: Floats, ids: Integers, options: SearchOptions) -> tuple[Candidates | None, Candidates]:
    """Split the candidates (b,N,k) with tokens ``ids`` into ended (None without any) and live ones, group by group.

    Of a hypothesis's N + 1 candidates, the earlier groups' pieces are at most N - N/G, so N/G + 1 have no penalty.
    """
    if options.groups == 1:
        return _split_candidates(log_probs, ids, options.beam_size)
    width = options.beam_size // options.groups
    strength = 0.5 if options.diversity is None else options.diversity
    slots = max(1, log_probs.shape[1] // options.groups)
    ended: list[Candidates] = []
    alive: list[Candidates] = []
    for group in range(options.groups):
        first = group * slots if log_probs.shape[1] > 1 else 0  # before the first step, all share one hypothesis
        part = log_probs[:, first : first + slots]
        part_ids = ids[:, first : first + slots]
        ranks = part.copy()
        for earlier in alive:
            same = part_ids[..., None] == earlier.tokens[:, None, None]
            ranks -= strength * (same & np.isfinite(earlier.log_prob)[:, None, None]).sum(axis=3)
        group_ended, group_alive = _split_candidates(part, part_ids, width, ranks)
        if group_ended is None:
            group_ended = group_alive._replace(log_prob=np.full_like(group_alive.log_prob, -np.inf))
        ended.append(group_ended._replace(parents=group_ended.parents + first))
        alive.append(group_alive._replace(parents=group_alive.parents + first))
    all_ended = _concatenate(ended)
    return (all_ended if (all_ended.log_prob > -np.inf).any() else None), _concatenate(alive)


def _concatenate(groups: Sequence[Candidates]) -> Candidates:
    log_prob, parents, tokens = (np.concatenate(column, axis=1) for column in zip(*groups, strict=True))
    return Candidates(log_prob, parents, tokens)


def _split_candidates(
    log_probs: Floats, ids: Integers, width: int, ranks: Floats | None = None
) -> tuple[Candidates | None, Candidates]:
    """Split the candidates (b,N,k) with tokens ``ids`` into ended (None without any) and live ones.

    They are ranked by ``ranks``, or by log-probability. Ties go to the earlier slot.
    """
    sentences, _, k = log_probs.shape
    flat = log_probs.reshape(sentences, -1)
    # At most N of the first 2 N candidates end, one per hypothesis, so at least N are left to fill the beam.
    order = (-(flat if ranks is None else ranks.reshape(sentences, -1))).argsort(axis=1, kind="stable")[:, : 2 * width]
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

    def endings(self, groups: int) -> Endings:
        """Return all endings, sentence by sentence: the best of each group, the second best of each, and so on."""
        row, rank = np.nonzero(self._score > -np.inf)
        order = np.lexsort((-self._score[row, rank], rank, row // groups))
        row, rank = row[order], rank[order]
        _, log_prob, length, slot, finished = self._entries[:, row, rank]
        return Endings(
            sentence=row // groups,
            length=length.astype(np.int64),
            slot=slot.astype(np.int64),
            log_prob=log_prob,
            finished=finished > 0,
        )
