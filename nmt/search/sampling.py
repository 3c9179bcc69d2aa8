"""Sampling: independent draws from the model, tempered and cut to its likeliest pieces on request."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from zlib import crc32

import numpy as np

from nmt.search.engine import BANNED, Engine, Floats, Integers, Source, State
from nmt.search.history import Endings, History
from nmt.search.options import SearchOptions
from nmt.text.specials import BOS, EOS

_EVERYTHING = sys.maxsize


def sampling_search(
    engine: Engine[Source, State],
    source: Source,
    seeds: Sequence[int],
    limits: Integers,
    options: SearchOptions,
    history: History,
) -> Endings:
    """``n_best`` endings a sentence, one a draw, each with its log-probability under the model as it is.

    The draws of a sentence share the axis N. One that is over idles until its sentence's last one is.
    """
    draws, k = options.n_best, options.top_k or _EVERYTHING
    chances = _chances(seeds, limits, draws, options.seed)
    state = engine.init(source)
    rows = np.arange(len(limits))
    tokens = np.full((len(rows), 1), BOS)
    parents = np.zeros_like(tokens)
    total = np.zeros((len(rows), draws))
    running = np.ones((len(rows), draws), dtype=np.bool_)
    endings: list[Endings] = []
    for time in range(int(limits.max()) + 1):
        state, log_probs, ids, weights = engine.step(state, tokens, parents, k, BANNED)
        # The single hypothesis of the first step feeds all draws; from then on every draw is its own parent.
        parents = np.tile(np.arange(draws) % log_probs.shape[1], (len(rows), 1))
        pick, gain = _draw(log_probs[:, parents[0]], chances[rows, time], options.temperature or 1.0)
        tokens = np.take_along_axis(ids[:, parents[0]], pick[..., None], axis=2)[..., 0]
        history.append(rows, parents, tokens, weights)

        possible = np.isfinite(gain)
        finished = running & possible & (tokens == EOS)
        over = running & (finished | ~possible | (limits[rows] == time)[:, None])
        total = np.where(running & (finished | ~over), total + np.where(possible, gain, 0.0), total)
        row, draw = np.nonzero(over)
        # The slot before this step: all draws shared slot 0 when they had no token yet.
        slot = draw if time else np.zeros_like(draw)
        length = np.full_like(row, time)
        endings.append(Endings(rows[row], length, slot, total[row, draw], finished[row, draw]))

        running &= ~over
        keep = np.flatnonzero(running.any(axis=1))
        if not keep.size:
            break
        if keep.size < rows.size:
            state = engine.drop(state, keep)
            rows, tokens, parents = rows[keep], tokens[keep], parents[keep]
            total, running = total[keep], running[keep]
    return Endings.join(endings)


def sentence_seed(ids: Sequence[int], before: int = 0) -> int:
    """A number for a source's ids; ``before`` is that of its first part, where it comes in several."""
    return crc32(np.asarray(ids, dtype=np.int64).tobytes(), before)


def _chances(seeds: Sequence[int], limits: Integers, draws: int, seed: int) -> Floats:
    """Uniform numbers in [0, 1), (B, steps, draws): each sentence has its own stream, whatever its batch."""
    chances = np.zeros((len(seeds), int(limits.max()) + 1, draws))
    for row, (own, limit) in enumerate(zip(seeds, limits, strict=True)):
        chances[row, : limit + 1] = np.random.default_rng([seed, own]).random((limit + 1, draws))
    return chances


def _draw(log_probs: Floats, chance: Floats, temperature: float) -> tuple[Integers, Floats]:
    """(pick (b,N), its log-probability): the candidate (b,N,k) on which each chance (b,N) falls.

    The log-probability is -inf where no candidate is possible.
    """
    possible = np.where(np.isfinite(log_probs), log_probs.astype(np.float64), -np.inf)
    peak = possible.max(axis=2, keepdims=True)
    mass = np.exp((possible - np.where(np.isfinite(peak), peak, 0.0)) / temperature)
    mass = mass.cumsum(axis=2)
    # Chances are below 1, so that the count stops at a candidate with mass: impossible ones add none.
    pick = (mass <= chance[..., None] * mass[..., -1:]).sum(axis=2)
    pick = np.minimum(pick, log_probs.shape[2] - 1)
    return pick, np.take_along_axis(possible, pick[..., None], axis=2)[..., 0]
