"""Sampling: independent draws from the model, with a temperature, and from the likeliest pieces (top k, top p).

Greedy search is one draw from the likeliest piece alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nmt.search.constraints import WHOLE_VOCABULARY
from nmt.search.engine import Engine, Floats, Integers, Source, State
from nmt.search.history import Endings, History
from nmt.search.options import SearchOptions
from nmt.text.specials import BOS, EOS


def sampling_search(
    engine: Engine[Source, State],
    source: Source,
    seeds: Sequence[int],
    limits: Integers,
    options: SearchOptions,
    history: History,
) -> Endings:
    """Return ``n_best`` endings per sentence, one per draw, with log-probabilities before temperature, top k and top p.

    The draws of a sentence share the axis N. A draw that has ended idles until the last draw of its sentence ends.
    ``limits`` (B,) are the maximum numbers of target pieces, without ``</s>``.
    """
    draws = options.n_best
    uniforms = None if options.method == "greedy" else _uniform_numbers(seeds, limits, draws, options.seed)
    k = 1 if uniforms is None else options.top_k or WHOLE_VOCABULARY
    state = engine.init(source)
    rows = np.arange(len(limits))
    tokens = np.full((len(rows), 1), BOS)
    parents = np.zeros_like(tokens)
    total = np.zeros((len(rows), draws))
    running = np.ones((len(rows), draws), dtype=np.bool_)
    endings: list[Endings] = []
    for time in range(int(limits.max()) + 1):
        state, log_probs, ids, weights = engine.step(state, tokens, parents, k, options.banned(time))
        if uniforms is None:  # a single draw, whose parent is always hypothesis 0
            tokens = ids[:, :, 0]
            gain: Floats = log_probs[:, :, 0].astype(np.float64)
        else:
            # All draws start from the single hypothesis of the first step; afterwards each draw extends itself.
            parents = np.tile(np.arange(draws) % log_probs.shape[1], (len(rows), 1))
            choice, gain = _sample(log_probs, parents, uniforms[rows, time], options)
            tokens = ids[np.arange(len(rows))[:, None], parents, choice]
        possible = np.isfinite(gain)
        finished = running & possible & (tokens == EOS)
        over = running & (finished | ~possible | (limits[rows] == time)[:, None])
        # A draw that is cut drops the token of this step, so the token's log-probability is not added.
        total = np.where(running & (finished | ~over), total + np.where(possible, gain, 0.0), total)
        history.append(rows, parents, tokens, total, weights)
        if not over.any():
            continue
        row, draw = np.nonzero(over)
        endings.append(
            Endings(
                sentence=rows[row],
                length=np.full_like(row, time),
                slot=draw if time else np.zeros_like(draw),  # at time 0, all draws share slot 0
                log_prob=total[row, draw],
                finished=finished[row, draw],
            )
        )
        running &= ~over
        keep = np.flatnonzero(running.any(axis=1))
        if not keep.size:
            break
        if keep.size < rows.size:
            state = engine.drop(state, keep)
            rows, tokens, parents = rows[keep], tokens[keep], parents[keep]
            total, running = total[keep], running[keep]
    return Endings(*(np.concatenate(column) for column in zip(*endings, strict=True)))


def _uniform_numbers(seeds: Sequence[int], limits: Integers, draws: int, seed: int) -> Floats:
    """Return uniform numbers in [0, 1), (B, steps, draws). A sentence's numbers do not depend on its batch."""
    uniforms = np.zeros((len(seeds), int(limits.max()) + 1, draws))
    for row, (own_seed, limit) in enumerate(zip(seeds, limits, strict=True)):
        uniforms[row, : limit + 1] = np.random.default_rng([seed, own_seed]).random((limit + 1, draws))
    return uniforms


def _sample(log_probs: Floats, parents: Integers, uniforms: Floats, options: SearchOptions) -> tuple[Integers, Floats]:
    """Choose one of the k candidates (b,M,k) of each parent (b,N) by its uniform number (b,N).

    Return (choice (b,N), log-probability (b,N)). The log-probability is the model's, before the temperature; it is
    -inf if no candidate is possible.
    """
    # One sentence at a time: for a whole vocabulary, the arrays in float64 take seven times the memory of log_probs.
    sentences = zip(log_probs, parents, uniforms, strict=True)
    choices = [_sample_sentence(candidates[rows], numbers, options) for candidates, rows, numbers in sentences]
    choice, gain = zip(*choices, strict=True)
    return np.stack(choice), np.stack(gain)


def _sample_sentence(log_probs: Floats, uniforms: Floats, options: SearchOptions) -> tuple[Integers, Floats]:
    """Choose one of the k candidates (N,k) by each uniform number (N,). Return choice (N,) and log-probability (N,)."""
    possible = np.where(np.isfinite(log_probs), log_probs.astype(np.float64), -np.inf)
    peak = possible.max(axis=1, keepdims=True)
    mass = np.exp((possible - np.where(np.isfinite(peak), peak, 0.0)) / (options.temperature or 1.0))
    mass = mass.cumsum(axis=1)
    total = mass[:, -1:]
    if options.top_p is not None:
        # The last piece that is kept: the first with which the likeliest pieces have this share.
        last = (mass < options.top_p * total).sum(axis=1, keepdims=True)
        total = np.take_along_axis(mass, last, axis=1)
    # Uniform numbers are below 1 and impossible candidates add no mass, so the count stops at a possible candidate.
    choice = (mass <= uniforms[:, None] * total).sum(axis=1)
    choice = np.minimum(choice, log_probs.shape[1] - 1)
    return choice, np.take_along_axis(possible, choice[:, None], axis=1)[:, 0]
