"""IBM Model 1 against loops."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest

from nmt.alignment.model1 import ITERATIONS, train_ibm_model_1


def test_repeated_pieces_equal_naive_loops() -> None:
    random = np.random.default_rng(3)
    sizes = random.integers(1, 8, (20, 2))
    pairs = [(random.integers(4, 9, size), random.integers(4, 12, other)) for size, other in sizes]
    expected: dict[tuple[int, int], float] = defaultdict(lambda: 1.0)
    for _ in range(ITERATIONS):
        counts: dict[tuple[int, int], float] = defaultdict(float)
        totals: dict[int, float] = defaultdict(float)
        for source, target in pairs:
            for f in target:
                norm = sum(expected[e, f] for e in source)
                for e in source:
                    counts[e, f] += expected[e, f] / norm
                    totals[e] += expected[e, f] / norm
        expected = defaultdict(float, {(e, f): count / totals[e] for (e, f), count in counts.items()})
    table = train_ibm_model_1(pairs)
    ids = zip(table.source.tolist(), table.target.tolist(), strict=True)
    assert dict(zip(ids, table.probability, strict=True)) == pytest.approx(dict(expected))


def test_no_pairs_give_an_empty_table() -> None:
    assert len(train_ibm_model_1([]).source) == 0
    one, none = np.ones(1, int), np.ones(0, int)
    assert len(train_ibm_model_1([(one, none), (none, one)]).source) == 0
