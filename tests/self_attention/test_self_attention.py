"""Self-attention equals naive loops written from the papers, in every form, with the same gradients."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import get_args

import pytest
import torch
from torch import Tensor, nn

from nmt.self_attention import FeatureMap, LinearSelfAttention, SelfAttention, SoftmaxSelfAttention
from nmt.self_attention.causal import chunked_form, masked_form, recurrent_form

MAPS = get_args(FeatureMap)
KINDS: dict[str, Callable[[], SelfAttention]] = {
    "all positions": lambda: SoftmaxSelfAttention(size=6, heads=2),
    **{
        name: lambda name=name: LinearSelfAttention(size=6, heads=2, feature_map=name)  # type: ignore[misc]
        for name in MAPS
    },
}
LENGTHS = (5, 1, 9)


def build(name: str) -> SelfAttention:
    torch.manual_seed(3)
    return KINDS[name]().double()


def random(*shape: int, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=generator, requires_grad=True)


def weights(name: str, query: Tensor, keys: Tensor) -> Tensor:
    """Return the weight (S,) of each of the keys (S, d) for one query (d,), from the equation of each paper."""
    if name == "all positions":
        return torch.softmax(keys @ query / math.sqrt(len(query)), dim=0)
    if name == "elu":  # Katharopoulos et al., eqs. 5 and 7
        similar = (torch.where(keys > 0, keys + 1, keys.exp()) * torch.where(query > 0, query + 1, query.exp())).sum(1)
        return similar / similar.sum()
    if name == "taylor":  # Li et al., eq. 10
        similar = 1 + keys @ query / (keys.norm(dim=1) * query.norm())
        return similar / similar.sum()
    if name == "taylor2":  # Arora et al., §4.1
        scores = keys @ query / math.sqrt(len(query))
        similar = 1 + scores + scores**2 / 2
        return similar / similar.sum()
    if name in ("hedgehog", "features"):  # Zhang et al., §4.1, or its first half
        similar = torch.softmax(keys, dim=1) @ torch.softmax(query, dim=0)
        if name == "hedgehog":
            similar = similar + torch.softmax(-keys, dim=1) @ torch.softmax(-query, dim=0)
        return similar / similar.sum()
    if name == "softmax":  # Shen et al., §3.2: keys over the positions, queries over the features
        return torch.softmax(keys, dim=0) @ torch.softmax(query, dim=0)
    if name == "scaling":
        return keys @ query / len(keys)
    assert name == "identity"
    return keys @ query


def naive(attention: SelfAttention, name: str, states: Tensor, *, causal: bool) -> Tensor:
    """Return the new states (T, E) of one sequence without padding, by loops over heads and positions."""
    size, width = states.shape[1], states.shape[1] // attention.heads
    parts = [states @ weight.T for weight in attention.W_qkv.weight.split(size)]
    rows = []
    for t in range(len(states)):
        seen = t + 1 if causal else len(states)
        heads = []
        for head in range(attention.heads):
            queries, keys, values = (part[:, head * width : (head + 1) * width] for part in parts)
            heads.append(weights(name, queries[t], keys[:seen]) @ values[:seen])
        rows.append(attention.W_o.weight @ torch.cat(heads))
    return torch.stack(rows)


def assert_equal_with_gradients(attention: nn.Module, states: Tensor, left: Tensor, right: Tensor) -> None:
    torch.testing.assert_close(left, right, rtol=1e-6, atol=1e-9)
    leaves = [states, *attention.parameters()]
    factor = random(*left.shape, seed=8).detach()
    for one_side, other in zip(
        *(torch.autograd.grad((side * factor).sum(), leaves, retain_graph=True) for side in (left, right)), strict=True
    ):
        torch.testing.assert_close(one_side, other, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("name", KINDS)
def test_complete_sequences_equal_the_naive_loop(name: str, causal: bool) -> None:
    attention, states = build(name), random(3, 9, 6)
    mask = torch.arange(9) < torch.tensor(LENGTHS)[:, None]
    output = attention(states) if causal else attention(states, mask)
    real = [(row, slice(length)) for row, length in enumerate(LENGTHS)]
    expected = torch.cat([naive(attention, name, states[place], causal=causal) for place in real])
    assert_equal_with_gradients(attention, states, torch.cat([output[place] for place in real]), expected)


@pytest.mark.parametrize("name", KINDS)
def test_steps_equal_a_complete_sequence(name: str) -> None:
    attention, states = build(name), random(2, 7, 6)
    state, steps = attention.start(states), []
    for t in range(7):
        output, state = attention.step(states[:, t : t + 1], state)
        steps.append(output)
    assert_equal_with_gradients(attention, states, torch.cat(steps, dim=1), attention(states))


@pytest.mark.parametrize("name", KINDS)
def test_only_the_state_of_a_softmax_grows(name: str) -> None:
    attention, states = build(name), random(1, 3, 6)
    state = attention.start(states)
    sizes = []
    for t in range(3):
        _, state = attention.step(states[:, t : t + 1], state)
        sizes.append(sum(field.numel() for field in state))
    assert sizes == ([12, 24, 36] if name == "all positions" else sizes[:1] * 3)


@pytest.mark.parametrize("length", [1, 7, 8, 9, 31])
def test_forms_of_causal_linear_attention_are_equal(length: int) -> None:
    inputs = [random(3, length, size, seed=size) for size in (4, 4, 5)]
    factor = random(3, length, 5, seed=9).detach()
    results = []
    for form in (masked_form, recurrent_form, lambda q, k, v: chunked_form(q, k, v, size=8)):
        output = form(*inputs)
        results.append([output, *torch.autograd.grad((output * factor).sum(), inputs)])
    for other in results[1:]:
        for left, right in zip(results[0], other, strict=True):
            torch.testing.assert_close(left, right, rtol=1e-6, atol=1e-9)


def test_no_position_sees_a_later_one() -> None:
    for name in KINDS:
        attention, states = build(name), random(1, 70, 6)
        (gradient,) = torch.autograd.grad(attention(states)[0, 33].sum(), states)
        assert not gradient[0, 34:].any() and gradient[0, :34].any(dim=1).all(), name


@pytest.mark.parametrize("name", KINDS)
def test_a_large_key_changes_no_earlier_output_in_float32(name: str) -> None:
    attention, states = build(name).float(), random(1, 130, 6).detach().float()
    larger = torch.cat([states[:, :100], 60 * states[:, 100:101], states[:, 101:]], dim=1)
    torch.testing.assert_close(attention(larger)[:, :100], attention(states)[:, :100])


@pytest.mark.parametrize("name", KINDS)
def test_large_keys_stay_finite_in_float32(name: str) -> None:
    attention = build(name).float()
    output = attention(300 * random(1, 200, 6).detach().float())
    assert output.isfinite().all()
