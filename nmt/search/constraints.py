"""Constraints on hypotheses: no repeated n-gram, and a prefix with which a translation begins.

They are an engine around another one, so no search method knows them. Candidates that break a constraint are removed as
banned ids are: the others are not renormalised. Hence every law of a search holds with them.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Generic, NamedTuple

import numpy as np

from nmt.search.engine import Booleans, Engine, Floats, Integers, Source

WHOLE_VOCABULARY = sys.maxsize
"""k for all candidates."""

Prefix = Sequence[Mapping[int, int]]
"""The pieces that may follow in each state, with the state that each leads to. The first state is 0. In state
``len(prefix)`` the prefix is complete, and any piece may follow."""


class ConstrainedState(NamedTuple):
    """State of b sentences with N hypotheses each."""

    inner: Any
    """The state of the other engine."""
    rows: Integers
    """(b,) row of each sentence in the encoded batch."""
    tokens: Integers
    """(b,N,1+T) ``<s>`` and the T pieces of each hypothesis."""
    progress: Integers
    """(b,N) the state of each hypothesis in the prefix of its sentence; -1 before ``<s>``."""


class ConstrainedEngine(Generic[Source]):
    """Engine without hypotheses that repeat an n-gram of ``no_repeat`` pieces, or that begin with another prefix.

    ``prefixes`` (B,) are empty for sentences without one. Pieces of a prefix may repeat an n-gram.
    """

    def __init__(self, engine: Engine[Source, Any], *, no_repeat: int | None, prefixes: Sequence[Prefix]) -> None:
        self._engine = engine
        self._no_repeat = no_repeat
        self._prefixes = prefixes
        self._ends = np.array([len(prefix) for prefix in prefixes])
        self._allowed = cache(lambda row, step: np.array([*prefixes[row][step]], dtype=np.int64))

    def encode(self, sources: list[list[int]]) -> Source:
        """Encode the batch as the other engine does."""
        return self._engine.encode(sources)

    def init(self, source: Source) -> ConstrainedState:
        """Return the state before the first step."""
        count = len(self._prefixes)
        empty = np.zeros((count, 1, 0), dtype=np.int64)
        return ConstrainedState(self._engine.init(source), np.arange(count), empty, np.full((count, 1), -1))

    def step(
        self,
        state: ConstrainedState,
        tokens: Integers,
        parents: Integers,
        k: int,
        banned: Sequence[int] | None = None,
    ) -> tuple[ConstrainedState, Floats, Integers, Floats]:
        """Return the k best candidates that no constraint forbids, with the state and the read weights."""
        inner, rows, history, progress = state
        sentences = np.arange(len(rows))[:, None]
        history = np.concatenate([history[sentences, parents], tokens[..., None]], axis=2)
        progress = self._advance(rows, progress[sentences, parents], tokens)
        inside = np.argwhere(progress < self._ends[rows, None])
        # A hypothesis of T pieces has T - n + 1 n-grams, each of which can forbid one piece.
        forbidden = 0 if self._no_repeat is None else max(0, history.shape[2] - self._no_repeat)
        # k must not depend on other lines of the batch, except within a prefix.
        wanted = WHOLE_VOCABULARY if len(inside) else k + forbidden
        inner, log_probs, ids, weights = self._engine.step(inner, tokens, parents, wanted, banned)
        state = ConstrainedState(inner, rows, history, progress)
        if not len(inside) and not forbidden:
            return state, log_probs, ids, weights
        blocked = _repeats(history[..., 1:], ids, self._no_repeat) if self._no_repeat else np.zeros(ids.shape, np.bool_)
        for row, slot in inside:
            blocked[row, slot] = ~np.isin(ids[row, slot], self._allowed(int(rows[row]), int(progress[row, slot])))
        return state, *first_allowed(blocked, log_probs, ids, k), weights

    def drop(self, state: ConstrainedState, keep: Integers) -> ConstrainedState:
        """Return the state of the sentences ``keep``."""
        inner, *fields = state
        return ConstrainedState(self._engine.drop(inner, keep), *(field[keep] for field in fields))

    def align(self, source: Source, row: int, weights: Floats) -> Floats:
        """Return the alignment of the other engine."""
        return self._engine.align(source, row, weights)

    def _advance(self, rows: Integers, progress: Integers, tokens: Integers) -> Integers:
        """Return the states in the prefixes after ``tokens`` (b,N)."""
        progress = progress.copy()
        for row, slot in np.argwhere(progress < self._ends[rows, None]):
            step = progress[row, slot]
            # An impossible hypothesis, which only fills its slot, may hold another piece.
            following = self._prefixes[rows[row]][step].get(int(tokens[row, slot])) if step >= 0 else 0
            progress[row, slot] = self._ends[rows[row]] if following is None else following
        return progress


def _repeats(history: Integers, ids: Integers, n: int) -> Booleans:
    """Return which candidates ``ids`` (b,N,k) would end an n-gram that is already in the pieces ``history`` (b,N,T)."""
    blocked = np.zeros(ids.shape, dtype=np.bool_)
    length = history.shape[2]
    last = history[..., length - n + 1 :]
    for start in range(length - n + 1):
        same = (history[..., start : start + n - 1] == last).all(axis=2)
        if same.any():
            blocked |= same[..., None] & (ids == history[..., start + n - 1, None])
    return blocked


def first_allowed(blocked: Booleans, log_probs: Floats, ids: Integers, k: int) -> tuple[Floats, Integers]:
    """Return the first k candidates that are not blocked; -inf marks the entry of a blocked one."""
    order = blocked.argsort(axis=2, kind="stable")[..., :k]
    log_probs = np.take_along_axis(np.where(blocked, -np.inf, log_probs), order, axis=2)
    return log_probs, np.take_along_axis(ids, order, axis=2)
