"""The ONNX engine removes banned ids from the candidates of the graph."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nmt.inference.onnx.engine import _without


@given(st.integers(0, 10**6), st.sets(st.integers(0, 9), min_size=1, max_size=4), st.integers(1, 4))
def test_the_best_candidates_that_are_not_banned_are_left(seed: int, banned: set[int], k: int) -> None:
    random = np.random.default_rng(seed)
    shape = (2, 3, min(10, k + len(banned)))
    log_probs = -np.sort(random.random(shape), axis=2)
    ids = np.array([[random.permutation(10)[: shape[2]] for _ in range(3)] for _ in range(2)])
    best, chosen = _without(sorted(banned), log_probs, ids, k)
    assert best.shape == chosen.shape == (2, 3, k)
    for row in np.ndindex(2, 3):
        allowed = [(i, p) for i, p in zip(ids[row].tolist(), log_probs[row].tolist(), strict=True) if i not in banned]
        assert list(zip(chosen[row].tolist(), best[row].tolist(), strict=True)) == allowed[:k]
