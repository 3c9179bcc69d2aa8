"""Ensembles: several models of one vocabulary that translate together.

The log-probability of a piece is the arithmetic mean of the models' log-probabilities. Hence the score of a translation
is the mean of the scores that the models give it, and a model that finds a piece nearly impossible can veto it; a mean
of probabilities has neither property. The mean is not renormalised. Alignments are those of the first model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nmt.inference.engines import LoadedModel, Properties
from nmt.search.engine import Floats, Integers, ModelEngine
from nmt.text.tokenizer import Tokenizer

Parts = tuple[Any, ...]
"""The source, or the state, of each engine."""
ROWS = 16
"""Rows of the table in which ``best_pieces`` arranges the pieces."""


def best_pieces(log_probs: Floats, k: int) -> tuple[Floats, Integers]:
    """Return the k largest log-probabilities of (b,N,V), best first, and their ids.

    The pieces form a table. Its k columns with the largest maxima contain the k best pieces, so few of them are sorted.
    """
    *shape, pieces = log_probs.shape
    width = pieces // ROWS
    ids = np.broadcast_to(np.arange(pieces), log_probs.shape)
    if k < width:
        table = log_probs[..., : ROWS * width].reshape(*shape, ROWS, width)
        columns = (-table.max(axis=2)).argpartition(k - 1, axis=2)[..., :k]
        inside = columns[:, :, None] + width * np.arange(ROWS)[:, None]
        ids = np.concatenate([inside.reshape(*shape, -1), ids[..., ROWS * width :]], axis=2)
    scores = np.take_along_axis(log_probs, ids, axis=2)
    if k < ids.shape[2]:
        chosen = (-scores).argpartition(k - 1, axis=2)[..., :k]
        ids = np.take_along_axis(ids, chosen, axis=2)
        scores = np.take_along_axis(scores, chosen, axis=2)
    order = (-scores).argsort(axis=2, kind="stable")
    return np.take_along_axis(scores, order, axis=2), np.take_along_axis(ids, order, axis=2)


class EnsembleEngine:
    """Search engine (``nmt.search.engine.ModelEngine``) over engines with the same vocabulary."""

    def __init__(self, engines: Sequence[ModelEngine[Any, Any]]) -> None:
        self._engines = engines

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
        after, means, weights = self.all_log_probs(state, tokens, parents)
        if banned:
            means[..., list(banned)] = -np.inf
        return after, *best_pieces(means, k), weights

    def all_log_probs(self, state: Parts, tokens: Integers, parents: Integers) -> tuple[Parts, Floats, Floats]:
        """Return the mean log-probabilities of all pieces, and the read weights of the first engine."""
        engines = zip(self._engines, state, strict=True)
        steps = [engine.all_log_probs(part, tokens, parents) for engine, part in engines]
        means = steps[0][1].astype(np.float64)
        for _, log_probs, _ in steps[1:]:
            means += log_probs
        means /= len(steps)
        return tuple(after for after, _, _ in steps), means, steps[0][2]

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

    @property
    def properties(self) -> Properties:
        """The properties of the first model."""
        return self.models[0].properties

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
        return EnsembleEngine(engines)
