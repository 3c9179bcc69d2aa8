"""The classic attentions against NumPy loops written from their papers."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from naive import QUERY, STATE, Array, compare, luong_score, mix, sigmoid, softmax, weights_of
from torch import nn

from nmt.attention import BahdanauAttention, CovarianceAttention, LuongAttention, MemoryAttention, NoAttention
from nmt.kernels import additive
from nmt.kernels.additive import additive_scores

SCORES = ["softmax", "sigmoid"]


def test_bahdanau_2015() -> None:
    attention = BahdanauAttention(state_size=STATE, query_size=QUERY, attention_size=5)
    weight = weights_of(attention)

    def naive(h: Array, q: Array) -> tuple[Array, Array]:
        energies = [weight["v.weight"][0] @ np.tanh(weight["W.weight"] @ q + weight["U.weight"] @ s) for s in h]
        return mix(softmax(np.array(energies)), h)

    compare(attention, naive)


@pytest.mark.parametrize("scale", [1e-4, 1.0, 100.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_additive_scores_are_accurate_for_small_and_large_inputs(dtype: torch.dtype, scale: float) -> None:
    torch.manual_seed(1)
    v = nn.Linear(6, 1, bias=False, dtype=dtype)
    queries, keys = (scale * torch.randn(2, count, 6, dtype=dtype) for count in (3, 4))
    expected = torch.tanh(queries[:, :, None].double() + keys[:, None].double()) @ v.weight[0].double()
    epsilon = torch.finfo(dtype).eps
    torch.testing.assert_close(additive_scores(v, queries, keys).double(), expected, rtol=0, atol=4 * epsilon)


@pytest.mark.parametrize("block", [1, 12, 24, 25, 36, 100, 1000])
def test_additive_scores_do_not_depend_on_the_size_of_their_blocks(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(1)
    v = nn.Linear(3, 1, bias=False, dtype=torch.float64)
    queries, keys = torch.randn(5, 3, 3, dtype=torch.float64), torch.randn(5, 4, 3, dtype=torch.float64)
    expected = additive_scores(v, queries, keys)  # with gradients: all sums at once
    sizes = []
    monkeypatch.setattr(additive, "BLOCK", block)
    monkeypatch.setattr(
        additive,
        "_scores",
        lambda v, q, k, scores=additive._scores: sizes.append(len(q) * q.shape[1]) or scores(v, q, k),
    )
    with torch.no_grad():
        torch.testing.assert_close(additive_scores(v, queries, keys), expected)
        assert additive_scores(v, queries[:0], keys[:0]).shape == (0, 3, 4)
        assert additive_scores(v, queries[:, :0], keys).shape == (5, 0, 4)
    assert max(sizes) <= max(1, block // keys[0].numel())


@pytest.mark.parametrize("score", ["dot", "scaled_dot", "general", "concat"])
def test_luong_2015(score: Any) -> None:
    query_size = STATE if score in ("dot", "scaled_dot") else QUERY
    attention = LuongAttention(state_size=STATE, query_size=query_size, score=score)
    weight = weights_of(attention)

    def naive(h: Array, q: Array) -> tuple[Array, Array]:
        return mix(softmax(np.array([luong_score(score, weight, q, s) for s in h])), h)

    compare(attention, naive, query_size)


@pytest.mark.parametrize(
    ("write", "read", "encoding", "renormalise"),
    [*itertools.product(SCORES, SCORES, [True, False], ["sum", "mean", None])],
)
def test_britz_2017(write: Any, read: Any, encoding: bool, renormalise: Any) -> None:
    slots, max_length = 3, 4
    attention = MemoryAttention(
        state_size=STATE,
        query_size=QUERY,
        slots=slots,
        write_score=write,
        read_score=read,
        position_encoding=encoding,
        max_length=max_length,
        renormalise=renormalise,
    )
    weight = weights_of(attention)
    score = {"softmax": softmax, "sigmoid": sigmoid}

    def positions(length: int) -> Array:
        table = np.zeros((length, slots))
        for s, k in itertools.product(range(1, length + 1), range(1, slots + 1)):
            late = min(s, max_length) / max_length
            table[s - 1, k - 1] = (1 - k / slots) * (1 - late) + (k / slots) * late
        if renormalise == "sum":
            return table / table.sum(0)
        return table / table.mean(0) if renormalise == "mean" else table

    def naive(h: Array, q: Array) -> tuple[Array, Array]:
        factors = positions(len(h)) if encoding else np.ones((len(h), slots))
        alpha = [score[write](weight["W_alpha.weight"] @ s * factor) for s, factor in zip(h, factors, strict=True)]
        contexts = np.zeros((slots, STATE))
        for k, (a, s) in itertools.product(range(slots), zip(alpha, h, strict=True)):
            contexts[k] += a[k] * s
        beta = score[read](weight["W_beta.weight"] @ q)
        return sum(beta[k] * contexts[k] for k in range(slots)), np.array([beta @ a for a in alpha])

    compare(attention, naive)


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("mean", [False, True])
@pytest.mark.parametrize("query_size", [STATE, QUERY])
def test_brebisson_2016(gated: bool, mean: bool, query_size: int) -> None:
    attention = CovarianceAttention(state_size=STATE, query_size=query_size, gated=gated, mean=mean)
    weight = weights_of(attention)

    def naive(h: Array, q: Array) -> tuple[Array, Array]:
        f = [sigmoid(weight["gate.weight"] @ s + weight["gate.bias"]) * s if gated else s for s in h]
        covariance = np.zeros((STATE, STATE))
        for state in f:
            covariance += np.outer(state, state)
        projected = q if query_size == STATE else weight["project.weight"] @ q
        share = 1 / len(h) if mean else 1
        return share * covariance @ projected, np.array([share * (state @ projected) for state in f])

    assert (attention.project is None) == (query_size == STATE)
    compare(attention, naive, query_size)


def test_no_attention_has_empty_contexts_and_no_alignment() -> None:
    compare(NoAttention(state_size=STATE, query_size=QUERY), lambda h, q: (np.zeros(0), np.zeros(len(h))))


@pytest.mark.parametrize("renormalise", ["sum", "mean", None])
def test_position_encodings_are_exact_in_half_precision(renormalise: Any) -> None:
    attention = MemoryAttention(state_size=1, query_size=1, max_length=1000, renormalise=renormalise)
    mask = torch.ones(1, 1001, dtype=torch.bool)
    start = torch.zeros(1, dtype=torch.int64)
    half, full = (attention.positions(mask, start, dtype) for dtype in (torch.bfloat16, torch.float64))
    np.testing.assert_allclose(half.double(), full, rtol=2**-8)
