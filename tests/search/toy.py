"""A language model that is small enough to enumerate, with the engine around it.

The next-piece distribution is random and depends on the source and on the whole prefix. The model is therefore not
Markov, and a search that takes a short cut fails. The engine checks the contract of ``nmt.search.engine``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from math import log
from typing import NamedTuple

import numpy as np

from nmt.search.engine import Floats, Integers
from nmt.search.options import SearchOptions
from nmt.search.scoring import length_penalty
from nmt.text.specials import BOS, EOS, PAD, UNK

Prefix = tuple[int, ...]
AllowedPrefix = Sequence[Mapping[int, int]]  # nmt.search.constraints.Prefix
METHODS = {
    "greedy": SearchOptions(beam_size=1),
    "beam": SearchOptions(beam_size=4, n_best=3),
    "sample": SearchOptions(temperature=0.8, top_k=5, n_best=3),
}


class ToySource(NamedTuple):
    sentences: tuple[Prefix, ...]


class ToyState(NamedTuple):
    sentences: tuple[Prefix, ...]
    slots: int
    prefixes: tuple[tuple[Prefix, ...], ...]


class ToyEngine:
    """``pieces`` ordinary pieces and the four special ones; ``sharpness`` scales the random logits."""

    def __init__(self, *, pieces: int = 3, seed: int = 0, sharpness: float = 1.5) -> None:
        self.size, self.seed, self.sharpness = 4 + pieces, seed, sharpness
        self.steps: list[tuple[Prefix, ...]] = []
        self.dropped: list[Prefix] = []
        self._cache: dict[tuple[Prefix, Prefix], tuple[Floats, Floats]] = {}

    def predict(self, source: Prefix, prefix: Prefix) -> tuple[Floats, Floats]:
        """Return (log-probabilities of the next piece (V,), read weights (S,)). ``prefix`` starts with BOS."""
        if (source, prefix) not in self._cache:
            random = np.random.default_rng([self.seed, len(source), *source, *prefix])
            logits = random.normal(size=self.size) * self.sharpness
            scores = random.normal(size=len(source))
            self._cache[source, prefix] = (log_softmax(logits), np.exp(log_softmax(scores)))
        return self._cache[source, prefix]

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
        assert tokens.flags.writeable and parents.flags.writeable  # torch warns about read-only arrays
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
        self.dropped += [sentence for row, sentence in enumerate(state.sentences) if row not in rows]
        return state._replace(
            sentences=tuple(state.sentences[row] for row in rows),
            prefixes=tuple(state.prefixes[row] for row in rows),
        )

    def align(self, source: ToySource, row: int, weights: Floats) -> Floats:
        assert not weights[:, len(source.sentences[row]) :].any()
        return weights


class TiedEngine(ToyEngine):
    """An engine whose log-probabilities are 0, -1 or -2: sums are exact, and translations of all lengths often tie."""

    def predict(self, source: Prefix, prefix: Prefix) -> tuple[Floats, Floats]:
        _, weights = super().predict(source, prefix)
        random = np.random.default_rng([self.seed, len(source), *source, *prefix])
        return -random.integers(0, 3, size=self.size).astype(np.float64), weights


def log_softmax(logits: Floats) -> Floats:
    shifted = logits - logits.max()
    return shifted - np.log(np.exp(shifted).sum())


def forced_log_prob(engine: ToyEngine, source: list[int], tokens: list[int], *, finished: bool = True) -> float:
    """Return the log-probability of a translation, computed from the model without search."""
    target = [*tokens, EOS] if finished else tokens
    prefixes = ((BOS, *target[:time]) for time in range(len(target)))
    return sum(
        float(engine.predict(tuple(source), prefix)[0][piece]) for prefix, piece in zip(prefixes, target, strict=True)
    )


def forced_weights(engine: ToyEngine, source: list[int], tokens: list[int], *, finished: bool = True) -> Floats:
    """Return the read weights (T + finished, S) of a translation, computed from the model without search."""
    times = range(len(tokens) + finished)
    return np.array([engine.predict(tuple(source), (BOS, *tokens[:time]))[1] for time in times])


def every_sentence(engine: ToyEngine, longest: int) -> Iterator[list[int]]:
    """Yield all sentences of at most ``longest`` ordinary pieces."""
    ordinary = [piece for piece in range(engine.size) if piece not in (PAD, UNK, BOS, EOS)]
    for length in range(longest + 1):
        yield from map(list, itertools.product(ordinary, repeat=length))


def is_allowed(tokens: list[int], options: SearchOptions, prefix: AllowedPrefix = ()) -> bool:
    """Return whether the options and the prefix allow these pieces, which may end in EOS."""
    place = 0
    for time, piece in enumerate(tokens):
        if piece == EOS and time < options.min_length:
            return False
        if place < len(prefix):
            if piece not in prefix[place]:
                return False
            place = prefix[place][piece]
    return True


def brute_force(
    engine: ToyEngine, source: list[int], options: SearchOptions, prefix: AllowedPrefix = ()
) -> list[tuple[float, list[int]]]:
    """Return (score, tokens) of every translation that the options and the prefix allow, best first."""
    scored = []
    alpha, beta = options.length_penalty, options.coverage_penalty
    for tokens in every_sentence(engine, (options.max_length or 0) + len(prefix)):
        if not is_allowed([*tokens, EOS], options, prefix):
            continue
        penalty = float(length_penalty(len(tokens) + 1, alpha))
        attention = forced_weights(engine, source, tokens).astype(np.float32).sum(axis=0)
        coverage = sum(log(min(float(total), 1.0)) for total in attention)
        scored.append((forced_log_prob(engine, source, tokens) / penalty + beta * coverage, tokens))
    return sorted(scored, key=lambda pair: -pair[0])


def naive_beam(
    engine: ToyEngine, source: list[int], options: SearchOptions, prefix: AllowedPrefix = ()
) -> list[list[int]]:
    """Return the n-best tokens of one sentence: beam search written with lists, without an early stop."""
    limit = int(options.limits(np.array([len(source)]))[0]) + len(prefix)
    live: list[tuple[float, list[int]]] = [(0.0, [])]
    finished: list[tuple[float, list[int]]] = []
    for length in range(limit + 1):
        cut = live
        candidates = []
        for log_prob, tokens in live:
            log_probs = engine.predict(tuple(source), (BOS, *tokens))[0]
            longer = [(log_prob + log_probs[piece], [*tokens, piece]) for piece in range(3, engine.size)]
            longer.sort(key=lambda pair: -pair[0])  # sums may round two of them to the same number
            candidates += [pair for pair in longer if is_allowed(pair[1], options, prefix)]
        candidates.sort(key=lambda pair: -pair[0])
        penalty = ((5 + length + 1) / 6) ** options.length_penalty
        beam = candidates[: options.beam_size]
        finished += [(pair[0] / penalty, pair[1][:-1]) for pair in beam if pair[1][-1] == EOS]
        live = [pair for pair in candidates if pair[1][-1] != EOS][: options.beam_size]
    best = sorted(finished or cut, key=lambda pair: -pair[0])
    return [tokens for _, tokens in best[: options.n_best]]


def ragged_sources(seed: int, count: int, *, longest: int = 9) -> list[list[int]]:
    """Return distinct sources of random lengths; the last is ``</s>`` alone."""
    random = np.random.default_rng(seed)
    sources: list[list[int]] = [[EOS]]
    while len(sources) < count:
        source = [*random.integers(4, 50, size=random.integers(1, longest)).tolist(), EOS]
        if source not in sources:
            sources.append(source)
    return sources[::-1]
