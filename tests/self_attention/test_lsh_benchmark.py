"""The LSH attention of benchmarks/speed/self_attention.py against the equation of its paper."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn.functional import normalize

from benchmarks.speed.self_attention import LSH_CHUNK, LSH_ROUNDS, LSH_SELF, Reformer
from nmt.self_attention.base import Projected

pytestmark = pytest.mark.thorough


def test_each_position_attends_to_all_that_share_a_bucket_in_a_round() -> None:
    torch.manual_seed(1)
    size, length = 8, 2 * LSH_CHUNK  # two chunks: each position sees its own and the one before, which is all
    attention = Reformer(size=size, heads=1).double()
    queries, values = torch.randn(2, 1, 1, length, size, dtype=torch.float64).unbind()
    torch.manual_seed(2)
    output = attention.both_sides(Projected(queries, queries, values), torch.ones(1, length, dtype=torch.bool))
    torch.manual_seed(2)
    rotations = torch.randn(LSH_ROUNDS, 1, 1, size, 1, dtype=torch.float64)
    keys = normalize(queries, dim=-1)[0, 0]
    side = (keys @ rotations[:, 0, 0]).squeeze(-1) > 0  # one direction gives two buckets
    shared = [[bool((side[:, i] == side[:, j]).any()) for j in range(length)] for i in range(length)]
    assert 0.6 < torch.tensor(shared).double().mean() < 0.9
    for i in range(length):
        scores = [float(queries[0, 0, i] @ keys[j]) / math.sqrt(size) if j != i else LSH_SELF for j in range(length)]
        sums = [math.exp(score) * seen for score, seen in zip(scores, shared[i], strict=True)]
        weights = torch.tensor(sums, dtype=torch.float64)
        torch.testing.assert_close(output[0, 0, i], weights @ values[0, 0] / weights.sum(), rtol=1e-9, atol=1e-9)
