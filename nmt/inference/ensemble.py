"""Ensembles: several models of one vocabulary that translate together.

The log-probability of a piece is the arithmetic mean of the models' log-probabilities. Hence the score of a translation
is the mean of the scores that the models give it, and a model that finds a piece nearly impossible can veto it; a mean
of probabilities has neither property. The mean is not renormalised. Alignments are those of the first model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from nmt.inference.engines import LoadedModel, Properties
from nmt.search.constraints import WHOLE_VOCABULARY
from nmt.search.engine import Engine, Floats, Integers
from nmt.text.tokenizer import Tokenizer

Parts = tuple[Any, ...]
"""The source, or the state, of each engine."""


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
        """Return the k best continuations by mean log-probability, and the read weights of the first engine."""
        total = np.zeros((*tokens.shape, self._vocabulary))
        states = []
        reads = []
        for engine, part in zip(self._engines, state, strict=True):
            part, log_probs, ids, weights = engine.step(part, tokens, parents, WHOLE_VOCABULARY, banned)
            states.append(part)
            reads.append(weights)
            by_id = np.full_like(total, -np.inf)
            np.put_along_axis(by_id, ids, log_probs, axis=2)
            total += by_id
        total /= len(self._engines)
        if k < self._vocabulary:
            candidates = np.sort((-total).argpartition(k - 1, axis=2)[..., :k], axis=2)
        else:
            candidates = np.broadcast_to(np.arange(self._vocabulary), total.shape)
        best = np.take_along_axis(total, candidates, axis=2)
        order = (-best).argsort(axis=2, kind="stable")
        ids = np.take_along_axis(candidates, order, axis=2)
        return tuple(states), np.take_along_axis(best, order, axis=2), ids, reads[0]

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
