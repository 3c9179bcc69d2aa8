"""Reference for the attentions: plain NumPy, one source and one query at a time."""

from __future__ import annotations

from collections.abc import Callable
from math import exp

import numpy as np
import torch
from numpy.typing import NDArray

from nmt.attention.base import Attention
from nmt.testing import write_and_read

Array = NDArray[np.float64]
Naive = Callable[[Array, Array], tuple[Array, Array]]
"""h (S, E), q (H,) -> context (D,), alignment (S,)"""

LENGTHS = (7, 1, 4)
STATE, QUERY, QUERIES = 4, 3, 2


def softmax(scores: Array) -> Array:
    powers = np.array([exp(score - max(scores)) for score in scores])
    return powers / sum(powers)


def sigmoid(scores: Array) -> Array:
    return np.array([1 / (1 + exp(-score)) for score in scores])


def weights_of(attention: Attention) -> dict[str, Array]:
    """Return the parameters as NumPy arrays, by name."""
    return {name: value.detach().double().numpy() for name, value in attention.named_parameters()}


def mix(alignment: Array, values: Array) -> tuple[Array, Array]:
    """Return Σ_s alignment_s values_s, and the alignment."""
    zeros = np.zeros(values.shape[1])
    return sum((share * value for share, value in zip(alignment, values, strict=True)), zeros), alignment


def luong_score(score: str, weight: dict[str, Array], q: Array, s: Array) -> float:
    """Return the score of query q and state s by Luong et al. (2015); ``scaled_dot`` is Vaswani et al. (2017)."""
    if score in ("dot", "scaled_dot"):
        return float(q @ s) / (len(s) ** 0.5 if score == "scaled_dot" else 1)
    if score == "general":
        return float(q @ weight["W_a_state.weight"] @ s)
    W_a = np.concatenate([weight["W_a_query.weight"], weight["W_a_state.weight"]], axis=1)
    return float(weight["v_a.weight"][0] @ np.tanh(W_a @ np.concatenate([q, s])))


def compare(attention: Attention, naive: Naive, query_size: int = QUERY) -> None:
    """Assert that a ragged batch gets the contexts and alignments of ``naive``."""
    torch.manual_seed(1)
    attention.double()
    mask = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]
    states = torch.randn(*mask.shape, STATE, dtype=torch.float64)
    query = torch.randn(len(LENGTHS), QUERIES, query_size, dtype=torch.float64)
    with torch.no_grad():
        context, _, alignment = write_and_read(attention, states, mask, query)
    for row, length in enumerate(LENGTHS):
        for step in range(QUERIES):
            expected = naive(states[row, :length].numpy(), query[row, step].numpy())
            np.testing.assert_allclose(context[row, step], expected[0], rtol=1e-10, atol=1e-12)
            np.testing.assert_allclose(alignment[row, step, :length], expected[1], rtol=1e-10, atol=1e-12)
