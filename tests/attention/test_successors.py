"""The memories that compare, solve or forget against loops written from their papers: contexts, alignments, gradients.

Each loop takes one source h (S, E) and one query q (H,), and returns context and alignment.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, sqrt
from typing import Any

import pytest
import torch
from naive import LENGTHS, QUERIES, QUERY, STATE
from torch import Tensor

from nmt.attention import (
    AbcAttention,
    DeltaAttention,
    GatedDeltaAttention,
    GeneralCovarianceAttention,
    HashedAttention,
    LocatedMemoryAttention,
    MesaAttention,
)
from nmt.attention.base import Attention
from nmt.attention.mesa import solve
from nmt.testing import write_and_read

Loop = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
DIMENSIONS: dict[str, Any] = {"state_size": STATE, "query_size": QUERY}
SIZES: dict[str, Any] = {**DIMENSIONS, "key_size": 5}


def unit(vector: Tensor) -> Tensor:
    return vector / (vector @ vector).sqrt()


def mix(weights: list[Tensor], h: Tensor) -> tuple[Tensor, Tensor]:
    """Return Σ_s weights_s h_s, and the weights."""
    return sum((weight * state for weight, state in zip(weights, h, strict=True)), h[0] * 0), torch.stack(weights)


def abc_loop(attention: AbcAttention) -> Loop:
    def loop(h: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
        scores = [attention.W_phi(state) for state in h]
        alpha = [score.exp() for score in scores]
        phi = [a / sum(alpha) for a in alpha]
        keys = sum(torch.outer(p, attention.W_k(state)) for p, state in zip(phi, h, strict=True))
        powers = (keys @ attention.W_q(q) / 5**0.5).exp()
        return mix([p @ (powers / powers.sum()) for p in phi], h)

    return loop


def located_memory_loop(attention: LocatedMemoryAttention) -> Loop:
    def loop(h: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
        slots = attention.W_alpha.out_features
        nearest = min(len(h), slots)
        alpha = []
        for s, state in enumerate(h):
            places = torch.tensor([(s + 0.5) / len(h) - (k + 0.5) / slots for k in range(slots)], dtype=h.dtype)
            powers = (attention.W_alpha(state) - attention.gamma * nearest**2 * places**2).exp()
            alpha.append(powers / powers.sum())
        phi = [a / sum(alpha) for a in alpha]
        means = sum(torch.outer(p, state) for p, state in zip(phi, h, strict=True))
        beta = (attention.W_beta(q) + attention.W_c(means) @ q / len(q) ** 0.5).exp()
        return mix([p @ (beta / beta.sum()) for p in phi], h)

    return loop


def mesa_loop(attention: MesaAttention) -> Loop:
    def loop(h: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
        keys = [unit(attention.W_k(state)) for state in h]
        gram = sum((torch.outer(k, k) for k in keys), attention.ridge * torch.eye(5, dtype=h.dtype))
        solved = gram.inverse() @ (attention.g * unit(attention.W_q(q)))
        return mix([k @ solved for k in keys], h)

    return loop


def delta_loop(attention: DeltaAttention | GatedDeltaAttention) -> Loop:
    """The delta rule of Schlag et al. (2021); gated by Yang et al. (2024)."""

    def loop(h: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
        written: list[Tensor] = []
        memory = torch.zeros(5, STATE, dtype=h.dtype)
        for state in h:
            k, beta = unit(attention.W_k(state)), torch.sigmoid(attention.beta(state))
            gate = torch.eye(5, dtype=h.dtype) - beta * torch.outer(k, k)
            if isinstance(attention, GatedDeltaAttention):
                gate = torch.sigmoid(attention.alpha(state)) * gate
            memory = gate @ memory + beta * torch.outer(k, state)
            written = [gate @ weights for weights in written] + [beta * k]
        q = unit(attention.W_q(q))
        return memory.T @ q, torch.stack([weights @ q for weights in written])

    return loop


def general_covariance_loop(attention: GeneralCovarianceAttention) -> Loop:
    """De Brébisson & Vincent (2016), §4."""

    def loop(h: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
        written: list[Tensor] = []
        covariance = torch.zeros(STATE, STATE, dtype=h.dtype)
        for state in h:
            scores = attention.gates(state)
            if attention.recalled is not None:
                by_state = attention.recall_by == "state"
                recalled = covariance @ (state if by_state else torch.sigmoid(scores[2:]) * state)
                scores = scores + attention.recalled(recalled / (1 + recalled @ recalled).sqrt())
            alpha, beta = torch.sigmoid(scores[:2])
            f = torch.sigmoid(scores[2:]) * state
            covariance = alpha * covariance + beta * torch.outer(f, f)
            written = [alpha * weights for weights in written] + [beta * f]
        q = attention.project(q) / (len(h) if attention.mean else 1)
        return covariance @ q, torch.stack([weights @ q for weights in written])

    return loop


def bucket_of(vector: Tensor, rotations: Tensor, directions: int) -> list[int]:
    """Return the nearest of ± the first ``directions`` axes after each rotation (hashes, axes, A)."""
    faces = []
    for rotation in rotations:
        turned = [float(axis @ vector.detach()) for axis in rotation[:directions]]
        signed = [number for value in turned for number in (value, -value)]
        faces.append(signed.index(max(signed)))
    return faces


def hashed_loop(attention: HashedAttention) -> Loop:
    def loop(h: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
        keys, query = [unit(attention.W_k(state)) for state in h], attention.W_q(q)
        directions = min(16, max(1, ceil(sqrt(2 * len(h) / attention.chunk) / 2)))
        seen: set[int] = set()
        for rotations in attention.rotations:
            buckets = [bucket_of(key, rotations, directions) for key in keys]
            order = sorted(range(len(h)), key=lambda s: (buckets[s], s))
            before = sum(bucket < bucket_of(query, rotations, directions) for bucket in buckets)
            start = min(before, max(0, len(h) - attention.chunk))
            seen |= set(order[start : start + attention.chunk])
        powers = [(key @ query).exp() if s in seen else (key @ query) * 0 for s, key in enumerate(keys)]
        return mix([power / sum(powers) for power in powers], h)

    return loop


CASES: dict[str, tuple[Callable[[], Any], Callable[[Any], Loop]]] = {
    "abc": (lambda: AbcAttention(**SIZES, slots=3), abc_loop),
    "located_memory": (lambda: LocatedMemoryAttention(**DIMENSIONS, slots=3), located_memory_loop),
    "located_memory, more slots than states": (
        lambda: LocatedMemoryAttention(**DIMENSIONS, slots=9),
        located_memory_loop,
    ),
    "mesa": (lambda: MesaAttention(**SIZES), mesa_loop),
    "mesa, ridge 0.01": (lambda: MesaAttention(**SIZES, ridge=0.01), mesa_loop),
    "delta": (lambda: DeltaAttention(**SIZES), delta_loop),
    "gated_delta": (lambda: GatedDeltaAttention(**SIZES), delta_loop),
    "general_covariance": (lambda: GeneralCovarianceAttention(**DIMENSIONS, mean=False), general_covariance_loop),
    "general_covariance, recall": (
        lambda: GeneralCovarianceAttention(**DIMENSIONS, recall=True),
        general_covariance_loop,
    ),
    "general_covariance, recall by value": (
        lambda: GeneralCovarianceAttention(**DIMENSIONS, recall=True, recall_by="value"),
        general_covariance_loop,
    ),
    "hashed, few states read": (lambda: HashedAttention(**SIZES, rounds=1, chunk=2), hashed_loop),
    "hashed, states found twice": (lambda: HashedAttention(**SIZES, rounds=3, chunk=1), hashed_loop),
    "hashed, others masked": (lambda: HashedAttention(**SIZES, rounds=3, chunk=2), hashed_loop),
    "hashed, short source": (lambda: HashedAttention(**SIZES, chunk=7), hashed_loop),
}


IN_CHUNKS = [case for case in CASES if "delta" in case or "general" in case]


@pytest.mark.parametrize(
    ("case", "lengths"), [*((case, LENGTHS) for case in CASES), *((case, (100, 33)) for case in IN_CHUNKS)]
)
def test_contexts_alignments_and_gradients_equal_a_loop(case: str, lengths: tuple[int, ...]) -> None:
    torch.manual_seed(1)
    attention: Attention = CASES[case][0]().double()
    loop = CASES[case][1](attention)
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    states = torch.randn(*mask.shape, STATE, dtype=torch.float64, requires_grad=True)
    query = torch.randn(len(lengths), QUERIES, QUERY, dtype=torch.float64, requires_grad=True)
    context, _, alignment = write_and_read(attention, states, mask, query)
    expected = torch.zeros((), dtype=torch.float64)
    for row, length in enumerate(lengths):
        for step in range(QUERIES):
            expected_context, expected_alignment = loop(states[row, :length], query[row, step])
            torch.testing.assert_close(context[row, step], expected_context, rtol=1e-9, atol=1e-11)
            torch.testing.assert_close(alignment[row, step, :length], expected_alignment, rtol=1e-9, atol=1e-11)
            expected = expected + expected_context.sin().sum() + expected_alignment.sin().sum()
    leaves = [states, query, *attention.parameters()]
    gradients = [torch.autograd.grad(loss, leaves) for loss in (context.sin().sum() + alignment.sin().sum(), expected)]
    for left, right in zip(*gradients, strict=True):
        torch.testing.assert_close(left, right, rtol=1e-6, atol=1e-9)


def test_mesa_in_float32_stays_accurate_when_states_arrive_one_by_one() -> None:
    torch.manual_seed(1)
    attention = MesaAttention(state_size=8, query_size=8, key_size=8, ridge=0.1)
    states, mask = torch.randn(1, 1000, 8), torch.ones(1, 1000, dtype=torch.bool)
    with torch.no_grad():
        memory = attention.write(states[:, :1], mask[:, :1])
        for s in range(1, 1000):
            memory = attention.append(memory, states[:, s : s + 1], mask[:, s : s + 1])
        exact = attention.double().write(states.double(), mask)
    torch.testing.assert_close(memory.slots.double(), exact.slots, rtol=1e-3, atol=1e-4)


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


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e5])
def test_newton_iteration_of_exported_graphs_solves_the_system(scale: float, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(1)
    keys, right = torch.randn(3, 6, 4, dtype=torch.float64), torch.randn(3, 6, 2, dtype=torch.float64)
    matrix = scale * keys @ keys.transpose(1, 2)  # of rank 4, so that the condition number grows with the scale
    expected = solve(matrix, right)
    monkeypatch.setattr(torch.compiler, "is_exporting", lambda: True)
    monkeypatch.setattr(torch.linalg, "solve", None)
    torch.testing.assert_close(solve(matrix, right), expected, rtol=1e-8, atol=1e-8)


def test_recall_by_value_without_recall_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^attention\.recall_by=value: needs attention\.recall=true"):
        GeneralCovarianceAttention(state_size=5, query_size=4, recall_by="value")
