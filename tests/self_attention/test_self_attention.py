"""Self-attention equals naive loops written from the papers, in every form, with the same gradients."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import get_args

import pytest
import torch
from attention.naive import kernel_weights
from torch import Tensor, nn

from nmt.errors import SourceTooLong
from nmt.self_attention import (
    FeatureMap,
    HashedSelfAttention,
    LinearSelfAttention,
    LowRankSelfAttention,
    PooledSelfAttention,
    SelfAttention,
    SoftmaxSelfAttention,
    StridedSelfAttention,
    WindowSelfAttention,
    blocks,
    linear,
)

MAPS = get_args(FeatureMap)
# Settings so small that nine positions are several blocks.
KINDS: dict[str, Callable[..., SelfAttention]] = {
    "all positions": SoftmaxSelfAttention,
    **{name: partial(LinearSelfAttention, feature_map=name) for name in MAPS},
    "elu, features": partial(LinearSelfAttention, feature_map="elu", key_feature_map="features"),
    "window": partial(WindowSelfAttention, window=2),
    "window, two global": partial(WindowSelfAttention, window=1, global_positions=2),
    "window, none global": partial(WindowSelfAttention, window=2, global_positions=0),
    "strided": partial(StridedSelfAttention, stride=2),
    "hashed": partial(HashedSelfAttention, chunk=2, rounds=3),
    "pooled": partial(PooledSelfAttention, stride=4),
    "low_rank": partial(LowRankSelfAttention, slots=3, max_length=9),
}
CAUSAL = [name for name in KINDS if name != "low_rank"]
BLOCKS = ("window", "window, two global", "strided", "hashed")
LENGTHS = (5, 1, 9)


def build(name: str) -> SelfAttention:
    torch.manual_seed(3)
    return KINDS[name](size=6, heads=2).double()


def random(*shape: int, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=generator, requires_grad=True)


def weights(name: str, query: Tensor, keys: Tensor) -> Tensor:
    """Return the weight (S,) of each of the keys (S, d) for one query (d,), from the equation of each paper."""
    if name == "all positions":
        return torch.softmax(keys @ query / math.sqrt(len(query)), dim=0)
    kind, _, key_kind = name.partition(", ")
    return kernel_weights(kind, key_kind or kind, query, [*keys])


def average(query: Tensor, keys: list[Tensor], values: list[Tensor]) -> Tensor:
    """Return Σ softmax(q · k / √d) v (d,) over some keys and values."""
    return weights("all positions", query, torch.stack(keys)) @ torch.stack(values)


def hashed_places(attention: HashedSelfAttention, queries: Tensor, t: int, end: int) -> set[int]:
    """Return the positions before ``end`` that position t finds in any round. Kitaev et al., §2."""
    places: set[int] = set()
    for rotation in attention.rotations:
        bucket = [int(torch.cat([query @ rotation, -query @ rotation]).argmax()) for query in queries]
        same = [s for s in range(end) if bucket[s] == bucket[t]]
        places |= {s for place, s in enumerate(same) if abs(place - same.index(t)) < attention.chunk}
    return places


def naive_head(attention: SelfAttention, name: str, t: int, end: int, parts: list[Tensor], causal: bool) -> Tensor:
    """Return o_t (d,) of one head, which sees the positions before ``end``; parts are its queries, keys and values."""
    queries, *_, values = parts
    keys = parts[1]
    pairs = []  # of keys and values
    match attention:
        case LowRankSelfAttention():  # Wang et al., eq. 7
            pairs = [
                (sum(e * k for e, k in zip(E, keys, strict=False)), sum(f * v for f, v in zip(F, values, strict=False)))
                for E, F in zip(attention.E, attention.F, strict=True)
            ]
        case PooledSelfAttention():  # Liu et al., §4.2.3
            m = attention.stride
            own = t - t % m
            for start in range(0, own if causal else len(keys), m):
                padded = [torch.cat([*part[start : start + m], *[0 * part[0]] * m])[: m * 3] for part in (keys, values)]
                pairs.append((attention.P_k.weight @ padded[0], attention.P_v.weight @ padded[1]))
            if causal:
                pairs += [(keys[s], values[s]) for s in range(own, t + 1)]
        case WindowSelfAttention(window=w, global_positions=g):  # Beltagy et al., §3.1
            pairs = [(keys[s], values[s]) for s in range(end) if abs(t - s) <= w or min(s, t) < g]
        case StridedSelfAttention(stride=l):  # Child et al., §4.3
            pairs = [(keys[s], values[s]) for s in range(end) if abs(t - s) < l or (t - s) % l == 0]
        case HashedSelfAttention():
            others = sorted(hashed_places(attention, queries, t, end) - {t}) or [t]
            pairs = [(queries[s] / queries[s].norm(), values[s]) for s in others]
        case _:
            return weights(name, queries[t], keys[:end]) @ values[:end]
    return average(queries[t], *map(list, zip(*pairs, strict=True)))


def naive(attention: SelfAttention, name: str, states: Tensor, *, causal: bool) -> Tensor:
    """Return the new states (T, E) of one sequence without padding, by loops over heads and positions."""
    size, width = states.shape[1], states.shape[1] // attention.heads
    parts = [states @ weight.T for weight in attention.W_qkv.weight.split(size)]
    rows = []
    for t in range(len(states)):
        heads = []
        for head in range(attention.heads):
            own = [part[:, head * width : (head + 1) * width] for part in parts]
            heads.append(naive_head(attention, name, t, t + 1 if causal else len(states), own, causal))
        rows.append(attention.W_o.weight @ torch.cat(heads))
    return torch.stack(rows)


def assert_equal_with_gradients(attention: nn.Module, states: Tensor, left: Tensor, right: Tensor) -> None:
    torch.testing.assert_close(left, right, rtol=1e-6, atol=1e-9)
    leaves = [states, *attention.parameters()]
    factor = random(*left.shape, seed=8).detach()
    gradients = [
        torch.autograd.grad((side * factor).sum(), leaves, retain_graph=True, allow_unused=True, materialize_grads=True)
        for side in (left, right)
    ]
    for one_side, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one_side, other, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(
    ("name", "causal"), [(name, causal) for name in KINDS for causal in (True, False) if name in CAUSAL or not causal]
)
def test_complete_sequences_equal_the_naive_loop(name: str, causal: bool) -> None:
    attention, states = build(name), random(3, 9, 6)
    mask = torch.arange(9) < torch.tensor(LENGTHS)[:, None]
    output = attention(states) if causal else attention(states, mask)
    real = [(row, slice(length)) for row, length in enumerate(LENGTHS)]
    expected = torch.cat([naive(attention, name, states[place], causal=causal) for place in real])
    assert_equal_with_gradients(attention, states, torch.cat([output[place] for place in real]), expected)


@pytest.mark.parametrize("name", [*BLOCKS, "elu"])
def test_blocks_equal_all_products_with_a_mask(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """So do the chunks of linear attention."""
    attention, states = build(name), random(2, 13, 6)
    mask = torch.arange(13) < torch.tensor([13, 8])[:, None]
    outputs = []
    for short in (0, 13):
        monkeypatch.setattr(blocks, "SHORT", short)
        monkeypatch.setattr(linear, "CHUNK", max(4, short))
        outputs.append(torch.cat([attention(states), attention(states, mask) * mask[..., None]]))
    assert_equal_with_gradients(attention, states, *outputs)


@pytest.mark.parametrize("name", KINDS)
def test_padding_and_the_order_of_a_batch_change_nothing(name: str) -> None:
    attention, states = build(name), random(3, 9, 6).detach()
    mask = torch.arange(14) < torch.tensor(LENGTHS)[:, None]
    padded = torch.cat([states, 1e6 * torch.ones(3, 5, 6)], dim=1)
    for row, output in enumerate(attention(padded.flip(0), mask.flip(0)).flip(0)):
        alone = attention(states[row : row + 1, : LENGTHS[row]], mask[row : row + 1, : LENGTHS[row]])
        torch.testing.assert_close(output[: LENGTHS[row]], alone[0])


@pytest.mark.parametrize("name", CAUSAL)
def test_steps_equal_a_complete_sequence(name: str) -> None:
    attention, states = build(name), random(2, 9, 6)
    state, steps = attention.start(states), []
    for t in range(9):
        output, state = attention.step(states[:, t : t + 1], state)
        steps.append(output)
    assert_equal_with_gradients(attention, states, torch.cat(steps, dim=1), attention(states))


@pytest.mark.parametrize("name", CAUSAL)
def test_what_the_state_of_a_step_holds(name: str) -> None:
    attention, states = build(name), random(1, 8, 6)
    state = attention.start(states)
    sizes = []
    for t in range(8):
        _, state = attention.step(states[:, t : t + 1], state)
        sizes.append(sum(field.numel() for field in state))
    growing = {"all positions": 12, "strided": 12, "hashed": 12 + 2 * 3}  # keys, values and buckets
    if name == "pooled":
        assert sizes == [12, 24, 36, 12, 24, 36, 48, 24]
    elif name in growing:
        assert sizes == [growing[name] * t for t in range(1, 9)]
    else:
        assert sizes == sizes[:1] * 8


@pytest.mark.parametrize("name", CAUSAL)
def test_a_large_key_changes_no_earlier_output_in_float32(name: str) -> None:
    attention, states = build(name).float(), random(1, 130, 6).detach().float()
    larger = torch.cat([states[:, :100], 60 * states[:, 100:101], states[:, 101:]], dim=1)
    torch.testing.assert_close(attention(larger)[:, :100], attention(states)[:, :100])


@pytest.mark.parametrize("name", KINDS)
def test_large_keys_stay_finite_in_float32(name: str) -> None:
    attention = build(name).float()
    states = 300 * random(1, 200, 6).detach().float()
    assert name == "low_rank" or attention(states).isfinite().all()
    assert attention(states[:, :9], torch.ones(1, 9, dtype=torch.bool)).isfinite().all()


def test_hashes_that_all_positions_share_leave_a_softmax_over_the_others() -> None:
    attention = HashedSelfAttention(size=4, heads=1, chunk=9).double()
    states = random(1, 6, 4)
    attention.rotations.zero_()  # one bucket
    queries, values = attention.split_heads(states)
    scores = queries @ nn.functional.normalize(queries, dim=-1).transpose(-1, -2) / 2
    expected = scores.masked_fill(torch.eye(6, dtype=torch.bool), -torch.inf).softmax(-1) @ values
    output = attention.both_sides(attention.project(states), torch.ones(1, 6, dtype=torch.bool))
    torch.testing.assert_close(output, expected)


def test_low_rank_refuses_a_source_that_is_longer_than_in_training() -> None:
    attention = build("low_rank")
    with pytest.raises(SourceTooLong, match=r"^source of 10 states: .* at most 9"):
        attention(random(1, 10, 6), torch.ones(1, 10, dtype=torch.bool))
