"""Ensembles: several models of one vocabulary that translate together.

The log-probability of a piece is the arithmetic mean of the models' log-probabilities. Hence the score of a translation
is the mean of the scores that the models give it, and a model that finds a piece nearly impossible can veto it; a mean
of probabilities has neither property. The mean is not renormalised. Alignments are those of the first model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from nmt.inference.engines import LoadedModel, Properties
from nmt.search.constraints import WHOLE_VOCABULARY
from nmt.search.engine import Booleans, Engine, Floats, Integers
from nmt.text.tokenizer import Tokenizer

Parts = tuple[Any, ...]
"""The source, or the state, of each engine."""
DEPTH = 256
"""Pieces of each model that are compared first. They decide nearly always, and sorting all pieces takes long."""


class Best(NamedTuple):
    """The best pieces of each hypothesis, and whether no other piece can be better."""

    log_probs: Floats
    """(b,N,k)"""
    ids: Integers
    """(b,N,k)"""
    certain: Booleans
    """(b,N)"""


def best_means(candidates: Sequence[tuple[Floats, Integers]], k: int, vocabulary: int, *, all_pieces: bool) -> Best:
    """Return the k best pieces by the mean of their log-probabilities.

    Each model has ``candidates``: log-probabilities, best first, and ids (b,N,M). They are its M best pieces or, with
    ``all_pieces``, all that are allowed. A model gives its other pieces at most its last log-probability. So means that
    count this one are upper bounds (threshold algorithm, Fagin, Lotem & Naor 2003).
    """
    tables = []
    known = []
    for log_probs, ids in candidates:
        rest = np.full_like(log_probs[..., :1], -np.inf) if all_pieces else log_probs[..., -1:]
        table = np.repeat(rest, vocabulary, axis=2)
        np.put_along_axis(table, ids, log_probs, axis=2)
        is_known = np.zeros(table.shape, dtype=np.bool_)
        np.put_along_axis(is_known, ids, True, axis=2)
        tables.append(table)
        known.append(is_known)

    def means(ids: Integers) -> Floats:
        mean: Floats = np.mean([np.take_along_axis(table, ids, axis=2) for table in tables], axis=0, dtype=np.float64)
        return mean

    ids = np.sort(candidates[0][1], axis=2)  # a certain piece is a candidate of the first model, too
    scores = means(ids)
    if k < ids.shape[2]:
        chosen = np.sort((-scores).argpartition(k - 1, axis=2)[..., :k], axis=2)
        ids = np.take_along_axis(ids, chosen, axis=2)
        scores = np.take_along_axis(scores, chosen, axis=2)
    order = (-scores).argsort(axis=2, kind="stable")
    ids = np.take_along_axis(ids, order, axis=2)
    scores = np.take_along_axis(scores, order, axis=2)
    if all_pieces:
        return Best(scores, ids, np.ones(scores.shape[:2], dtype=np.bool_))
    others = [
        np.where(np.take_along_axis(known[0], of_model, axis=2), -np.inf, means(of_model)).max(axis=2)
        for _, of_model in candidates[1:]
    ]
    others.append(np.mean([log_probs[..., -1] for log_probs, _ in candidates], axis=0, dtype=np.float64))
    certain: Booleans = np.logical_and.reduce(scores[..., -1:] > np.stack(others, axis=2), axis=2)
    for is_known in known:
        certain &= np.take_along_axis(is_known, ids, axis=2).all(axis=2)
    return Best(scores, ids, certain)


class EnsembleEngine:
    """Search engine (``nmt.search.engine.Engine``) over engines with the same ``vocabulary``."""

    def __init__(self, engines: Sequence[Engine[Any, Any]], vocabulary: int) -> None:
        self._engines = engines
        self._vocabulary = vocabulary

    def encode(self, sources: list[list[int]]) -> Parts:
        """Encode the batch with each engine."""
        return tuple(engine.encode(sources) for engine in self._engines)

    def init(self, source: Parts) -> Parts:
        """Return the state of each engine before the first step."""
        return tuple(engine.init(part) for engine, part in zip(self._engines, source, strict=True))

    def step(
        self, state: Parts, tokens: Integers, parents: Integers, k: int, banned: Sequence[int] | None = None
    ) -> tuple[Parts, Floats, Integers, Floats]:
        """Return the k best continuations by mean log-probability, and the read weights of the first engine.

        The ``DEPTH`` best pieces of each engine decide for most sentences. For the others, all pieces are compared.
        """
        depth = DEPTH if k <= DEPTH < self._vocabulary else WHOLE_VOCABULARY
        steps = [
            engine.step(part, tokens, parents, depth, banned) for engine, part in zip(self._engines, state, strict=True)
        ]
        best = best_means([step[1:3] for step in steps], k, self._vocabulary, all_pieces=depth == WHOLE_VOCABULARY)
        if len(rows := np.flatnonzero(~best.certain.all(axis=1))):
            engines = zip(self._engines, self.drop(state, rows), strict=True)
            of_all = [
                engine.step(part, tokens[rows], parents[rows], WHOLE_VOCABULARY, banned) for engine, part in engines
            ]
            exact = best_means([step[1:3] for step in of_all], k, self._vocabulary, all_pieces=True)
            best.log_probs[rows] = exact.log_probs
            best.ids[rows] = exact.ids
        return tuple(step[0] for step in steps), best.log_probs, best.ids, steps[0][3]

    def drop(self, state: Parts, keep: Integers) -> Parts:
        """Return the state of the sentences ``keep`` of each engine."""
        return tuple(engine.drop(part, keep) for engine, part in zip(self._engines, state, strict=True))

    def align(self, source: Parts, row: int, weights: Floats) -> Floats:
        """Return the alignment of the first engine."""
        return self._engines[0].align(source[0], row, weights)


def members(model: LoadedModel) -> Sequence[LoadedModel]:
    """Return the models of an ensemble, or the ``model`` itself."""
    return model.models if isinstance(model, Ensemble) else [model]


@dataclass(frozen=True)
class Ensemble:
    """Loaded models that translate together (``nmt.inference.engines.LoadedModel``)."""

    models: Sequence[LoadedModel]

    @property
    def source(self) -> Tokenizer:
        return self.models[0].source

    @property
    def target(self) -> Tokenizer:
        return self.models[0].target

    @cached_property
    def properties(self) -> Properties:
        """The properties of the first model, with the smallest limit of the source length."""
        first = self.models[0].properties
        limits = [model.properties.attention.max_source_length for model in self.models]
        limit = min((limit for limit in limits if limit is not None), default=None)
        return replace(first, attention=replace(first.attention, max_source_length=limit))

    @property
    def workers(self) -> int:
        return min(model.workers for model in self.models)

    @property
    def max_hypotheses(self) -> int:
        return min(model.max_hypotheses for model in self.models)

    def engine(self, *, trace: bool, beside_others: bool = False, hypotheses: int | None = None) -> EnsembleEngine:
        """Return the engine over those of the models. Only the first gives alignments."""
        engines = [
            model.engine(trace=trace and number == 0, beside_others=beside_others, hypotheses=hypotheses)
            for number, model in enumerate(self.models)
        ]
        return EnsembleEngine(engines, len(self.target))
