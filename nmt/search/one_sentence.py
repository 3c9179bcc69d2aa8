"""Search for one sentence in a single call of an engine that can do it. ``nmt.search.beam`` takes single steps."""

from __future__ import annotations

from itertools import pairwise
from math import inf
from typing import Any, NamedTuple, Protocol

import numpy as np

from nmt.search.engine import Floats, Integers
from nmt.search.history import Hypothesis
from nmt.search.options import SearchOptions
from nmt.search.scoring import length_penalty
from nmt.text.specials import EOS


class OneSearch(NamedTuple):
    """A beam search for one sentence: the 2 N best candidates of each of its T steps, best first."""

    log_probs: Floats
    """(T,2N) log-probability of the hypothesis that a candidate continues or ends, up to this step."""
    tokens: Integers
    """(T,2N) the piece that it adds."""
    parents: Integers
    """(T,2N) slot of that hypothesis among the live ones of the step before."""
    places: Integers
    """(T,N) the candidates that stay alive, best first: positions among the 2 N."""


class SearchOne(Protocol):
    """The method ``search_one``, which an engine may have: a whole search for one sentence."""

    def __call__(self, source: Any, limit: int, options: SearchOptions) -> OneSearch | None:
        """Return what ``beam_search`` finds for the only sentence of ``source``; None if it takes single steps.

        The translation has at most ``limit`` target pieces. With a beam of 1, the search is greedy. Of the options,
        ``beam_size``, ``length_penalty``, ``min_length`` and ``replace_unknown`` have an effect.
        """


def search_one_sentence(engine: Any, source: Any, limit: int, options: SearchOptions) -> list[Hypothesis] | None:
    """Return the hypotheses of the only sentence of ``source``, with at most ``limit`` target pieces.

    None: the engine takes single steps, always or for these options.
    """
    search_one: SearchOne | None = getattr(engine, "search_one", None)
    simple = options.method != "sample" and options.n_best == 1
    if search_one is None or not simple or options.keep_weights or options.coverage_penalty:
        return None
    result = search_one(source, limit, options)
    return None if result is None else _hypotheses(result, limit, options)


def _hypotheses(search: OneSearch, limit: int, options: SearchOptions) -> list[Hypothesis]:
    """Return the best hypothesis that has ended, or else the best one of ``limit`` pieces; none if there is neither."""
    steps, beam = search.places.shape
    penalties = length_penalty(np.arange(1, steps + 1), options.length_penalty).tolist()
    log_probs, tokens, parents, places = (array.tolist() for array in search)
    score = -inf
    totals: list[float] = []
    length = limit
    slot = 0
    for time, row in enumerate(tokens):
        if EOS in row[:beam]:
            place = row.index(EOS)
            if log_probs[time][place] / penalties[time] > score:
                score = log_probs[time][place] / penalties[time]
                totals = [log_probs[time][place]]
                length = time
                slot = parents[time][place]
    finished = bool(totals)
    if not finished and steps <= limit:
        return []
    chosen: list[int] = []
    for time in reversed(range(length)):
        place = places[time][slot]
        chosen.append(tokens[time][place])
        totals.append(log_probs[time][place])
        slot = parents[time][place]
    totals.append(0.0)
    if totals[0] == -inf:
        return []
    return [
        Hypothesis(
            tokens=chosen[::-1],
            log_prob=totals[0],
            score=float(totals[0] / length_penalty(length + finished, options.length_penalty)),
            finished=finished,
            token_log_probs=[after - before for before, after in pairwise(reversed(totals))],
        )
    ]
