"""The efficient attentions against NumPy loops written from their papers."""

from __future__ import annotations

from functools import partial
from math import ceil, exp, log, sqrt
from typing import Any, get_args

import numpy as np
import pytest
import torch
from naive import LENGTHS, QUERY, STATE, Array, compare, mix, softmax, weights_of
from torch import Tensor

from nmt.attention import (
    DeltaAttention,
    GatedDeltaAttention,
    KernelAttention,
    LowRankAttention,
    LuongAttention,
    MesaAttention,
    MultiHeadAttention,
    SparseAttention,
)
from nmt.attention.decaying import DecayingAttention
from nmt.attention.kernel import FeatureMap
from nmt.attention.scan import scan
from nmt.errors import SourceTooLong
from nmt.testing import write_and_read

KEY = 5


def test_linear_attention_of_katharopoulos_2020() -> None:
    """With elu; tests/self_attention compares all feature maps, which it shares."""
    attention = KernelAttention(state_size=STATE, query_size=QUERY, feature_map="elu", key_size=KEY)
    weight = weights_of(attention)

    def phi(vector: Array) -> Array:
        return np.array([x + 1 if x > 0 else exp(x) for x in vector])

    def naive(h: Array, q: Array) -> tuple[Array, Array]:
        scores = np.array([phi(weight["W_q.weight"] @ q) @ phi(weight["W_k.weight"] @ s) for s in h])
        return mix(scores / sum(scores), h)

    compare(attention, naive)


def kernel_of_vectors(feature_map: Any, size: int) -> KernelAttention:
    """Return an attention whose states and queries are the keys and queries themselves."""
    attention = KernelAttention(state_size=size, query_size=size, feature_map=feature_map, key_size=size)
    with torch.no_grad():
        attention.W_k.weight.copy_(torch.eye(size))
        attention.W_q.weight.copy_(torch.eye(size))
    return attention


@pytest.mark.parametrize("offset", [0.0, -7.0, -17.0, -60.0])
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


@pytest.mark.parametrize("size", [4, 64])
@pytest.mark.parametrize("distance", [1.0, 0.1, 0.01])
def test_taylor_features_of_opposite_vectors_lose_no_more_than_the_documented_precision(
    size: int, distance: float
) -> None:
    torch.manual_seed(1)
    attention, mask = kernel_of_vectors("taylor", size), torch.ones(20, 9, dtype=torch.bool)
    query = torch.nn.functional.normalize(torch.randn(20, 1, size), dim=2)
    states = distance * torch.nn.functional.normalize(torch.randn(20, 9, size), dim=2) - query
    with torch.no_grad():
        context, _ = attention.read(query, attention.write(states, mask))
    keys, q = (torch.nn.functional.normalize(vectors.double(), dim=2) for vectors in (states, query))
    weights = (keys + q).square().sum(2) / 2  # 1 + cos of unit vectors, without the cancellation
    exact = (weights[..., None] * states.double()).sum(1) / weights.sum(1, keepdim=True)
    bound = sqrt(size) * torch.finfo(torch.float32).eps / weights.mean(1) * states.norm(dim=2).amax(1)
    assert ((context[:, 0] - exact).norm(dim=1) <= bound).all()


def test_efficient_attention_of_shen_2018_with_softmax() -> None:
    attention = KernelAttention(state_size=STATE, query_size=QUERY, feature_map="softmax", key_size=KEY)
    weight = weights_of(attention)

    def naive(h: Array, q: Array) -> tuple[Array, Array]:
        keys = np.array([weight["W_k.weight"] @ s for s in h])
        weights = np.stack([softmax(column) for column in keys.T], axis=1)  # of each feature, over the source
        contexts = sum(np.outer(k, s) for k, s in zip(weights, h, strict=True))
        projected = softmax(weight["W_q.weight"] @ q)
        return projected @ contexts, np.array([projected @ k for k in weights])

    compare(attention, naive)


def test_softmax_over_time_in_parts_is_stable_for_large_scores() -> None:
    attention = KernelAttention(state_size=1, query_size=1, feature_map="softmax", key_size=1)
    with torch.no_grad():
        attention.W_k.weight.fill_(1.0)
    states = torch.tensor([[[-3000.0], [500.0], [2000.0], [2000.0 - log(3)]]])
    mask = torch.ones(1, 4, dtype=torch.bool)
    memory = attention.write(states[:, :2], mask[:, :2], trace=True)
    memory = attention.append(memory, states[:, 2:], mask[:, 2:])
    _, weights = attention.read(torch.zeros(1, 1, 1), memory)
    np.testing.assert_allclose(attention.align(weights, memory)[0, 0].tolist(), [0, 0, 0.75, 0.25], rtol=1e-4)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("kind", [DeltaAttention, GatedDeltaAttention, MesaAttention])
def test_query_of_zeros_reads_zero_in_half_precision(kind: type[DecayingAttention], dtype: torch.dtype) -> None:
    attention = kind(state_size=STATE, query_size=QUERY).to(dtype)
    memory = attention.write(torch.randn(1, 3, STATE, dtype=dtype), torch.ones(1, 3, dtype=torch.bool))
    context, _ = attention.read(torch.zeros(1, 1, QUERY, dtype=dtype), memory)
    assert context.tolist() == [[[0.0] * STATE]]


def test_linformer_of_wang_2020() -> None:
    attention = LowRankAttention(state_size=STATE, query_size=QUERY, slots=2, key_size=KEY, max_length=max(LENGTHS))
    weight = weights_of(attention)

    def naive(h: Array, q: Array) -> tuple[Array, Array]:
        keys = np.array([weight["W_k.weight"] @ s for s in h])
        scores = weight["E"][:, : len(h)] @ keys @ (weight["W_q.weight"] @ q) / sqrt(KEY)
        return mix(softmax(scores) @ weight["F"][:, : len(h)], h)

    compare(attention, naive)


def test_linformer_rejects_a_source_that_is_too_long() -> None:
    attention = LowRankAttention(state_size=STATE, query_size=QUERY, slots=2, max_length=3)
    states, mask = torch.randn(2, 4, STATE), torch.tensor([[True, True, True, False], [True, True, True, True]])
    attention.write(states[:1], mask[:1])
    with pytest.raises(SourceTooLong, match="source of 4 states: LowRankAttention holds at most 3"):
        attention.write(states, mask)
    with pytest.raises(SourceTooLong, match="source of 5 states"):
        attention.append(attention.write(states[:1], mask[:1]), states[:1, :2], mask[:1, :2])


@pytest.mark.parametrize("keep", [1, 3, 20])
def test_explicit_sparse_transformer_of_zhao_2019(keep: int) -> None:
    attention = SparseAttention(state_size=STATE, query_size=QUERY, score="general", keep=keep)
    weight = weights_of(attention)

    def naive(h: Array, q: Array) -> tuple[Array, Array]:
        scores = np.array([q @ weight["W_a_state.weight"] @ s for s in h])
        chosen = np.argsort(-scores)[:keep]
        alignment = np.zeros(len(h))
        alignment[chosen] = softmax(scores[chosen])
        return mix(alignment, h)

    compare(attention, naive)


def test_scores_tied_with_the_lowest_kept_score_are_kept() -> None:
    attention = SparseAttention(state_size=1, query_size=1, score="dot", keep=2)
    states, mask = torch.tensor([[[2.0], [1.0], [1.0], [0.0]]]), torch.ones(1, 4, dtype=torch.bool)
    _, weights = attention.read(torch.tensor([[[log(2)]]]), attention.write(states, mask))
    torch.testing.assert_close(weights, torch.tensor([[[0.5, 0.25, 0.25, 0.0]]]))


@pytest.mark.parametrize("separate", [False, True])
def test_heads_equal_the_multi_head_attention_of_torch(separate: bool) -> None:
    """Without separate values, the keys of a head are its values too."""
    torch.manual_seed(3)
    attention = MultiHeadAttention(
        state_size=8, query_size=8, heads=2, separate_values=separate, inner=partial(LuongAttention, score="scaled_dot")
    ).double()
    reference = torch.nn.MultiheadAttention(8, 2, bias=False, batch_first=True, dtype=torch.float64)
    W_v = attention.W_v if attention.W_v is not None else attention.W_s
    with torch.no_grad():
        reference.in_proj_weight.copy_(torch.cat([attention.W_q.weight, attention.W_s.weight, W_v.weight]))
        reference.out_proj.weight.copy_(attention.W_o.weight)
        states, queries = torch.randn(3, 5, 8, dtype=torch.float64), torch.randn(3, 4, 8, dtype=torch.float64)
        mask = torch.arange(5) < torch.tensor([[5], [1], [3]])
        expected, expected_alignment = reference(queries, states, states, key_padding_mask=~mask)
        context, _, alignment = write_and_read(attention, states, mask, queries)
    torch.testing.assert_close(context, expected)
    torch.testing.assert_close(alignment, expected_alignment)


# The recurrence that keeps √S checkpoints in training.


def forget(carry: Tensor, inputs: tuple[Tensor, ...], parameters: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor]]:
    """Return α C + f fᵀ, and an output that depends on C: W C f."""
    alpha, f = inputs
    output = (carry @ f[..., None])[..., 0] @ parameters[0]
    return alpha[:, None, None] * carry + f[..., None] * f[:, None], (output,)


def test_recurrence_keeps_sqrt_s_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    length = 900
    alpha = torch.rand(1, length, requires_grad=True)
    f = torch.randn(1, length, 2, requires_grad=True)
    saved: list[Tensor] = []

    def save(tensor: Tensor) -> Tensor:
        saved.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(save, lambda tensor: tensor):
        scan(forget, torch.zeros(1, 2, 2), (alpha, f), (torch.eye(2),))
    assert sum(tensor.shape == (1, 2, 2) for tensor in saved) == ceil(sqrt(length))


def test_delta_rule_keeps_sqrt_s_memories() -> None:
    length, state, key = 900, 4, 3
    attention = DeltaAttention(state_size=state, query_size=2, key_size=key)
    saved: dict[tuple[int, int], Tensor] = {}  # by address, because a tensor can be saved twice

    def save(tensor: Tensor) -> Tensor:
        saved[tensor.data_ptr(), tensor.numel()] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(save, lambda tensor: tensor):
        attention.write(torch.randn(1, length, state, requires_grad=True), torch.ones(1, length, dtype=torch.bool))
    memories = sum(tensor.shape == (1, key, state) for tensor in saved.values())
    assert abs(memories - sqrt(length)) <= 1
    # Pairs of states exist only within a chunk: no saved tensor is larger than the states themselves.
    assert max(tensor.numel() for tensor in saved.values()) <= length * state
