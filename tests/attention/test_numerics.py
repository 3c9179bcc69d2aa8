"""Attentions stay accurate in half precision, for large and small numbers, and for long sources."""

from __future__ import annotations

from math import log
from typing import Any, get_args

import pytest
import torch
from torch import nn

from nmt.attention import DeltaAttention, KernelAttention, LowRankAttention, MemoryAttention, MesaAttention
from nmt.attention.base import Attention
from nmt.attention.kernel import FeatureMap
from nmt.errors import SourceTooLong
from nmt.kernels import additive
from nmt.kernels.additive import additive_scores


def kernel_of_vectors(feature_map: Any, size: int) -> KernelAttention:
    """Return an attention whose states and queries are the keys and queries themselves."""
    attention = KernelAttention(state_size=size, query_size=size, feature_map=feature_map, key_size=size)
    with torch.no_grad():
        for layer in (attention.W_k, attention.W_q):
            layer.weight.copy_(torch.eye(size))
    return attention


@pytest.mark.parametrize("offset", [0.0, -7.0, -60.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_elu_features_do_not_vanish_for_very_negative_numbers(dtype: torch.dtype, offset: float) -> None:
    torch.manual_seed(1)
    attention, mask = kernel_of_vectors("elu", 4), torch.ones(1, 5, dtype=torch.bool)
    states, query = (torch.randn(1, count, 4).to(dtype).float() / 4 + offset for count in (5, 3))
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.bfloat16):
        context, _ = attention.read(query, attention.write(states, mask))
    exact = attention.double()
    expected, _ = exact.read(query.double(), exact.write(states.double(), mask))
    torch.testing.assert_close(context.double(), expected, rtol=1e-5 if dtype == torch.float32 else 0.05, atol=0)


@pytest.mark.parametrize("kind", [kind for kind in get_args(FeatureMap) if kind != "identity"])
def test_half_precision_reads_thousands_of_states(kind: FeatureMap) -> None:
    torch.manual_seed(1)
    attention = KernelAttention(state_size=16, query_size=16, key_size=64, feature_map=kind)
    states, query, mask = torch.randn(1, 5000, 16), torch.randn(1, 3, 16), torch.ones(1, 5000, dtype=torch.bool)
    with torch.no_grad():
        expected, _ = attention.read(query, attention.write(states, mask))
        context, _ = attention.half().read(query.half(), attention.write(states.half(), mask))
    assert (context.float() - expected).norm() <= 0.05 * expected.norm()


def test_softmax_over_the_source_in_parts_is_stable_for_large_scores() -> None:
    attention = kernel_of_vectors("softmax", 1)
    states = torch.tensor([[[-3000.0], [500.0], [2000.0], [2000.0 - log(3)]]])
    mask = torch.ones(1, 4, dtype=torch.bool)
    memory = attention.append(attention.write(states[:, :2], mask[:, :2], trace=True), states[:, 2:], mask[:, 2:])
    _, weights = attention.read(torch.zeros(1, 1, 1), memory)
    torch.testing.assert_close(attention.align(weights, memory)[0, 0], torch.tensor([0, 0, 0.75, 0.25]))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("kind", [DeltaAttention, MesaAttention])
def test_query_of_zeros_reads_zero_in_half_precision(kind: type[Attention], dtype: torch.dtype) -> None:
    attention = kind(state_size=4, query_size=3).to(dtype)  # type: ignore[call-arg]
    memory = attention.write(torch.randn(1, 3, 4, dtype=dtype), torch.ones(1, 3, dtype=torch.bool))
    context, _ = attention.read(torch.zeros(1, 1, 3, dtype=dtype), memory)
    assert context.tolist() == [[[0.0] * 4]]


@pytest.mark.parametrize("exporting", [False, True])
@pytest.mark.parametrize("ridge", [1.0, 0.01])
def test_mesa_in_float32_is_accurate_for_states_that_resemble_each_other(
    ridge: float, exporting: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(1)
    attention = MesaAttention(state_size=16, query_size=16, key_size=32, ridge=ridge)
    states = torch.tanh(torch.randn(1, 1000, 16) + 2 * torch.randn(16))
    query, mask = torch.randn(1, 3, 16), torch.ones(1, 1000, dtype=torch.bool)
    results = {}
    for dtype in (torch.float64, torch.float32):
        with monkeypatch.context() as patch:
            patch.setattr(torch.compiler, "is_exporting", lambda: exporting and dtype == torch.float32)  # noqa: B023
            source = states.to(dtype).requires_grad_()
            context, _ = attention.to(dtype).read(query.to(dtype), attention.write(source, mask))
            context.square().sum().backward()
            results[dtype] = (context.detach(), source.grad)
    for single, double in zip(results[torch.float32], results[torch.float64], strict=True):
        assert (single - double).norm() <= 1e-3 * double.norm()


@pytest.mark.parametrize("renormalise", ["sum", "mean", None])
def test_position_encodings_are_exact_in_half_precision(renormalise: Any) -> None:
    attention = MemoryAttention(state_size=1, query_size=1, max_length=1000, renormalise=renormalise)
    mask, start = torch.ones(1, 1001, dtype=torch.bool), torch.zeros(1, dtype=torch.int64)
    half, full = (attention.positions(mask, start, dtype) for dtype in (torch.bfloat16, torch.float64))
    torch.testing.assert_close(half.double(), full, rtol=2**-8, atol=0)


def test_linformer_refuses_a_source_that_is_too_long() -> None:
    attention = LowRankAttention(state_size=4, query_size=3, slots=2, max_length=3)
    states, mask = torch.randn(2, 4, 4), torch.tensor([[True, True, True, False], [True, True, True, True]])
    memory = attention.write(states[:1], mask[:1])
    with pytest.raises(SourceTooLong, match="^source of 4 states: LowRankAttention holds at most 3"):
        attention.write(states, mask)
    with pytest.raises(SourceTooLong, match="^source of 5 states"):
        attention.append(memory, states[:1, :2], mask[:1, :2])


@pytest.mark.parametrize("scale", [1e-4, 1.0, 100.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_additive_scores_are_accurate_for_small_and_large_inputs(dtype: torch.dtype, scale: float) -> None:
    torch.manual_seed(1)
    v = nn.Linear(6, 1, bias=False, dtype=dtype)
    queries, keys = (scale * torch.randn(2, count, 6, dtype=dtype) for count in (3, 4))
    expected = torch.tanh(queries[:, :, None].double() + keys[:, None].double()) @ v.weight[0].double()
    epsilon = torch.finfo(dtype).eps
    torch.testing.assert_close(additive_scores(v, queries, keys).double(), expected, rtol=0, atol=4 * epsilon)


@pytest.mark.parametrize("block", [1, 24, 25, 1000])
def test_additive_scores_do_not_depend_on_the_size_of_their_blocks(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(1)
    v = nn.Linear(3, 1, bias=False, dtype=torch.float64)
    queries, keys = torch.randn(5, 3, 3, dtype=torch.float64), torch.randn(5, 4, 3, dtype=torch.float64)
    expected = additive_scores(v, queries, keys)  # with gradients: all sums at once
    monkeypatch.setattr(additive, "BLOCK", block)
    with torch.no_grad():
        torch.testing.assert_close(additive_scores(v, queries, keys), expected)
        assert additive_scores(v, queries[:0], keys[:0]).shape == (0, 3, 4)
        assert additive_scores(v, queries[:, :0], keys).shape == (5, 0, 4)
