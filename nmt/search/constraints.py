"""Prefixes with which translations begin.

They are an engine around another one, so no search method knows them. Other candidates are removed as banned ids are:
the rest is not renormalised. Hence every law of a search holds with prefixes.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from nmt.search.engine import Booleans, Engine, Floats, Integers

WHOLE_VOCABULARY = sys.maxsize
"""k for all candidates."""

Prefix = Sequence[Mapping[int, int]]
"""The pieces that may follow in each state, with the state that each leads to. The first state is 0. In state
``len(prefix)`` the prefix is complete, and any piece may follow."""


class PrefixState(NamedTuple):
    """State of b sentences with N hypotheses each."""

    inner: Any
    """The state of the other engine."""
    rows: Integers
    """(b,) row of each sentence in the encoded batch."""
    progress: Integers
    """(b,N) the state of each hypothesis in the prefix of its sentence; -1 before ``<s>``."""


class PrefixEngine:
    """The steps of an engine whose hypotheses begin with the ``prefixes`` (B,), empty for sentences without one."""

    def __init__(self, engine: Engine[Any, Any], prefixes: Sequence[Prefix]) -> None:
        self._engine = engine
        self._prefixes = prefixes
        self._ends = np.array([len(prefix) for prefix in prefixes])
        self._allowed = cache(lambda row, step: np.array([*prefixes[row][step]], dtype=np.int64))

    def init(self, source: Any) -> PrefixState:
        """Return the state before the first step."""
        count = len(self._prefixes)
        return PrefixState(self._engine.init(source), np.arange(count), np.full((count, 1), -1))

    def step(
        self, state: PrefixState, tokens: Integers, parents: Integers, k: int, banned: Sequence[int] | None = None
    ) -> tuple[PrefixState, Floats, Integers, Floats]:
        """Return the k best candidates that the prefixes allow, with the state and the read weights."""
        inner, rows, progress = state
        progress = self._advance(rows, progress[np.arange(len(rows))[:, None], parents], tokens)
        inside = np.argwhere(progress < self._ends[rows, None])
        wanted = WHOLE_VOCABULARY if len(inside) else k
        inner, log_probs, ids, weights = self._engine.step(inner, tokens, parents, wanted, banned)
        state = PrefixState(inner, rows, progress)
        if not len(inside):
            return state, log_probs, ids, weights
        blocked = np.zeros(ids.shape, np.bool_)
        for row, slot in inside:
            blocked[row, slot] = ~np.isin(ids[row, slot], self._allowed(int(rows[row]), int(progress[row, slot])))
        return state, *first_allowed(blocked, log_probs, ids, k), weights

    def drop(self, state: PrefixState, keep: Integers) -> PrefixState:
        """Return the state of the sentences ``keep``."""
        inner, *fields = state
        return PrefixState(self._engine.drop(inner, keep), *(field[keep] for field in fields))

    def _advance(self, rows: Integers, progress: Integers, tokens: Integers) -> Integers:
        """Return the states in the prefixes after ``tokens`` (b,N)."""
        progress = progress.copy()
        for row, slot in np.argwhere(progress < self._ends[rows, None]):
            step = progress[row, slot]
            # An impossible hypothesis, which only fills its slot, may hold another piece.
            following = self._prefixes[rows[row]][step].get(int(tokens[row, slot])) if step >= 0 else 0
            progress[row, slot] = self._ends[rows[row]] if following is None else following
        return progress


def first_allowed(blocked: Booleans, log_probs: Floats, ids: Integers, k: int) -> tuple[Floats, Integers]:
    """Return the first k candidates that are not blocked; -inf marks the entry of a blocked one."""
    order = blocked.argsort(axis=2, kind="stable")[..., :k]
    log_probs = np.take_along_axis(np.where(blocked, -np.inf, log_probs), order, axis=2)
    return log_probs, np.take_along_axis(ids, order, axis=2)
