"""Search for one sentence in a single call of an engine that can do it. ``nmt.search.beam`` takes single steps."""

from __future__ import annotations

from itertools import pairwise
from math import inf
from typing import Any, NamedTuple, Protocol

from nmt.search.engine import Floats, Integers
from nmt.search.history import Hypothesis
from nmt.search.options import SearchOptions
from nmt.search.scoring import length_penalty


class OneSearch(NamedTuple):
    """A beam search for one sentence: the choices of its T steps, and the best hypothesis that has ended."""

    tokens: Integers
    """(T,1,N) tokens of the live hypotheses after each step, best first."""
    parents: Integers
    """(T,1,N) slot of the step before that each one extends."""
    log_probs: Floats
    """(T,1,N) log-probability of each one."""
    length: int
    """Number of tokens of the best hypothesis that has ended, without ``</s>``; -1 if none has."""
    slot: int
    """Its slot after step ``length - 1``."""
    log_prob: float
    """Its log-probability."""


class SearchOne(Protocol):
    """The method ``search_one``, which an engine may have: a whole search for one sentence."""

    def __call__(self, source: Any, limit: int, options: SearchOptions) -> OneSearch | None:
        """Return what ``beam_search`` finds for the only sentence of ``source``; None if it takes single steps.

        The translation has at most ``limit`` target pieces. With a beam of 1, the search is greedy. Of the options,
        ``beam_size``, ``length_penalty``, ``min_length`` and ``replace_unknown`` have an effect.
        """
        ...


def search_one_sentence(engine: Any, source: Any, limit: int, options: SearchOptions) -> list[Hypothesis] | None:
    """Return the hypotheses of the only sentence of ``source``, with at most ``limit`` target pieces.

    None: the engine takes single steps, always or for these options.
    """
    search_one: SearchOne | None = getattr(engine, "search_one", None)
    simple = options.method != "sample" and options.n_best == options.groups == 1
    if search_one is None or not simple or options.keep_weights or options.coverage_penalty:
        return None
    result = search_one(source, limit, options)
    return None if result is None else _hypotheses(result, limit, options)


def _hypotheses(search: OneSearch, limit: int, options: SearchOptions) -> list[Hypothesis]:
    """Return the best hypothesis that has ended, or else the best one of ``limit`` pieces; none if there is neither."""
    tokens, parents, log_probs = (array[:, 0].tolist() for array in (search.tokens, search.parents, search.log_probs))
    finished = search.length >= 0
    length, slot, log_prob = search.length, search.slot, search.log_prob
    if not finished:
        length = len(tokens) - 1
        log_prob = max(log_probs[length - 1]) if length else 0.0
        slot = log_probs[length - 1].index(log_prob) if length else 0
    if log_prob == -inf or not (finished or length == limit):
        return []
    chosen: list[int] = []
    totals = [log_prob] if finished else []
    for time in reversed(range(length)):
        chosen.append(tokens[time][slot])
        totals.append(log_probs[time][slot])
        slot = parents[time][slot]
    totals.append(0.0)
    return [
        Hypothesis(
            tokens=chosen[::-1],
            log_prob=log_prob,
            score=float(log_prob / length_penalty(length + finished, options.length_penalty)),
            finished=finished,
            token_log_probs=[after - before for before, after in pairwise(reversed(totals))],
        )
    ]
