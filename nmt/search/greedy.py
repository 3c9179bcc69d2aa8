"""Greedy search: the most likely piece at every step."""

from __future__ import annotations

import numpy as np

from nmt.search.engine import Engine, Integers, Source, State
from nmt.search.history import Endings, History
from nmt.search.options import SearchOptions
from nmt.text.specials import BOS, EOS


def greedy_search(
    engine: Engine[Source, State], source: Source, limits: Integers, options: SearchOptions, history: History
) -> Endings:
    """Return one ending per sentence. ``limits`` (B,) are the maximum numbers of target pieces, without ``</s>``."""
    state = engine.init(source)
    rows = np.arange(len(limits))
    tokens = np.full((len(rows), 1), BOS)
    parents = np.zeros_like(tokens)
    total = np.zeros(len(rows))
    endings: list[Endings] = []
    for time in range(int(limits.max()) + 1):
        state, log_probs, ids, weights = engine.step(state, tokens, parents, 1, options.banned(time))
        tokens = ids[:, :, 0]
        gain = log_probs[:, 0, 0].astype(np.float64)

        possible = np.isfinite(gain)
        finished = possible & (tokens[:, 0] == EOS)
        over = finished | ~possible | (limits[rows] == time)
        # A hypothesis that is cut drops the token of this step, so the token's log-probability is not added.
        total = np.where(finished | ~over, total + np.where(possible, gain, 0.0), total)
        history.append(rows, parents, tokens, total[:, None], weights)
        if over.any():
            ended = np.flatnonzero(over)
            endings.append(
                Endings(
                    sentence=rows[ended],
                    length=np.full_like(ended, time),
                    slot=np.zeros_like(ended),
                    log_prob=total[ended],
                    finished=finished[ended],
                )
            )
            keep = np.flatnonzero(~over)
            if not keep.size:
                break
            state = engine.drop(state, keep)
            rows, tokens, parents, total = rows[keep], tokens[keep], parents[keep], total[keep]
    return Endings.concatenate(endings)
