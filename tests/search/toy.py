"""A language model small enough to enumerate and as awkward as one can be: it looks at the whole prefix.

The next-piece distribution is random, drawn afresh for every (source, prefix), so that nothing is Markov and
no short cut of a search goes unnoticed. The engine around it checks the contract of ``nmt.search.engine``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from math import log
from typing import NamedTuple

import numpy as np

from nmt.search.engine import Floats, Integers
from nmt.search.penalties import length_penalty
from nmt.text.specials import BOS, EOS, PAD, UNK

Prefix = tuple[int, ...]


class ToySource(NamedTuple):
    sentences: tuple[Prefix, ...]


class ToyState(NamedTuple):
    sentences: tuple[Prefix, ...]
    slots: int
    prefixes: tuple[tuple[Prefix, ...], ...]


class ToyEngine:
    """``pieces`` ordinary pieces beside the four special ones; ``sharpness`` scales the random logits."""

    def __init__(self, *, pieces: int = 3, seed: int = 0, sharpness: float = 1.5) -> None:
        self.size, self.seed, self.sharpness = 4 + pieces, seed, sharpness
        self.steps: list[tuple[Prefix, ...]] = []
        self.dropped: list[Prefix] = []
        self._known: dict[tuple[Prefix, Prefix], tuple[Floats, Floats]] = {}

    def predict(self, source: Prefix, prefix: Prefix) -> tuple[Floats, Floats]:
        """(log-probabilities of the next piece (V,), read weights (S,)); ``prefix`` starts with BOS."""
        if (source, prefix) not in self._known:
            random = np.random.default_rng([self.seed, len(source), *source, *prefix])
            logits = random.normal(size=self.size) * self.sharpness
            scores = random.normal(size=len(source))
            self._known[source, prefix] = (log_softmax(logits), np.exp(log_softmax(scores)))
        return self._known[source, prefix]

    def encode(self, sources: list[list[int]]) -> ToySource:
        return ToySource(tuple(map(tuple, sources)))

    def init(self, source: ToySource) -> ToyState:
        slots = max(map(len, source.sentences))
        return ToyState(source.sentences, slots, (((),),) * len(source.sentences))

    def step(
        self,
        state: ToyState,
        tokens: Integers,
        parents: Integers,
        k: int,
        banned: Sequence[int] | None = None,
    ) -> tuple[ToyState, Floats, Integers, Floats]:
        assert tokens.dtype == parents.dtype == np.int64
        assert tokens.shape == parents.shape and len(tokens) == len(state.sentences) > 0
        assert tokens.flags.writeable and parents.flags.writeable  # torch refuses to borrow read-only arrays
        assert parents.min() >= 0 and parents.max() < len(state.prefixes[0])
        self.steps.append(state.sentences)
        prefixes = tuple(
            tuple((*old[parent], token) for token, parent in zip(*row, strict=True))
            for old, *row in zip(state.prefixes, tokens.tolist(), parents.tolist(), strict=True)
        )
        log_probs = np.empty((*tokens.shape, self.size))
        weights = np.zeros((*tokens.shape, state.slots), dtype=np.float32)
        for row, (source, hypotheses) in enumerate(zip(state.sentences, prefixes, strict=True)):
            for slot, prefix in enumerate(hypotheses):
                log_probs[row, slot], weights[row, slot, : len(source)] = self.predict(source, prefix)
        log_probs[..., list(banned or ())] = -np.inf
        ids = np.argsort(-log_probs, axis=2, kind="stable")[..., :k]
        return state._replace(prefixes=prefixes), np.take_along_axis(log_probs, ids, axis=2), ids, weights

    def drop(self, state: ToyState, keep: Integers) -> ToyState:
        rows = keep.tolist()
        assert rows == sorted(set(rows)) and 0 < len(rows) < len(state.sentences)
        self.dropped += [one for row, one in enumerate(state.sentences) if row not in rows]
        return state._replace(
            sentences=tuple(state.sentences[row] for row in rows),
            prefixes=tuple(state.prefixes[row] for row in rows),
        )

    def align(self, source: ToySource, row: int, weights: Floats) -> Floats:
        assert not weights[:, len(source.sentences[row]) :].any()
        return weights


class TiedEngine(ToyEngine):
    """Scores are whole numbers, 0 among them: sums are exact, and translations of any lengths tie again and again."""

    def predict(self, source: Prefix, prefix: Prefix) -> tuple[Floats, Floats]:
        _, weights = super().predict(source, prefix)
        random = np.random.default_rng([self.seed, len(source), *source, *prefix])
        return -random.integers(0, 3, size=self.size).astype(np.float64), weights


def log_softmax(logits: Floats) -> Floats:
    shifted = logits - logits.max()
    return shifted - np.log(np.exp(shifted).sum())


def forced(engine: ToyEngine, source: list[int], tokens: list[int], *, finished: bool = True) -> float:
    """The log-probability of a translation, straight from the model."""
    target = [*tokens, EOS] if finished else tokens
    prefixes = ((BOS, *target[:time]) for time in range(len(target)))
    return sum(
        float(engine.predict(tuple(source), prefix)[0][piece]) for prefix, piece in zip(prefixes, target, strict=True)
    )


def forced_weights(engine: ToyEngine, source: list[int], tokens: list[int], *, finished: bool = True) -> Floats:
    """The read weights (T + finished, S) along a translation, straight from the model."""
    times = range(len(tokens) + finished)
    return np.array([engine.predict(tuple(source), (BOS, *tokens[:time]))[1] for time in times])


def every_sentence(engine: ToyEngine, longest: int) -> Iterator[list[int]]:
    """All that can be said with at most ``longest`` ordinary pieces."""
    ordinary = [piece for piece in range(engine.size) if piece not in (PAD, UNK, BOS, EOS)]
    for length in range(longest + 1):
        yield from map(list, itertools.product(ordinary, repeat=length))


def brute_force(
    engine: ToyEngine, source: list[int], *, longest: int, alpha: float, beta: float = 0.0
) -> list[tuple[float, list[int]]]:
    """(score, tokens) of every possible translation, best first."""
    scored = []
    for tokens in every_sentence(engine, longest):
        penalty = float(length_penalty(len(tokens) + 1, alpha))
        looked = forced_weights(engine, source, tokens).astype(np.float32).sum(axis=0)
        covered = sum(log(min(float(one), 1.0)) for one in looked)
        scored.append((forced(engine, source, tokens) / penalty + beta * covered, tokens))
    return sorted(scored, key=lambda pair: -pair[0])


def ragged_sources(seed: int, count: int, *, longest: int = 9) -> list[list[int]]:
    """Distinct sources of random lengths; the last is ``</s>`` alone."""
    random = np.random.default_rng(seed)
    sources: list[list[int]] = [[EOS]]
    while len(sources) < count:
        source = [*random.integers(4, 50, size=random.integers(1, longest)).tolist(), EOS]
        if source not in sources:
            sources.append(source)
    return sources[::-1]
