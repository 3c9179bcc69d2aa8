"""The score that Bahdanau's attention and Luong's concat share."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def additive_scores(v: nn.Linear, queries: Tensor, keys: Tensor) -> Tensor:
    """vᵀ tanh(q_t + k_s) of projected queries (B, Q, A) and keys (B, S, A): (B, Q, S).

    The (B, Q, S, A) numbers under v are by far the largest of a training step, so they exist once, changed in place.
    On a CPU they are found as tanh x = 2 σ(2x) − 1, for torch's σ takes an eighth of the time of its tanh there. That
    is exact to the last digit of 1, not of a small tanh x: float32 can afford it, bfloat16 cannot.
    """
    if sigmoid_serves(queries, keys):
        half = torch.sigmoid_((2 * queries)[:, :, None] + (2 * keys)[:, None])
        return 2 * (half @ v.weight[0]) - v.weight.sum()
    return v(torch.tanh_(queries[:, :, None] + keys[:, None])).squeeze(3)  # type: ignore[no-any-return]


def sigmoid_serves(one: Tensor, other: Tensor) -> bool:
    """Whether tanh of the two is to be found as 2 σ(2x) − 1: on a CPU, exactly enough, and for no graph to record."""
    exact = one.dtype == other.dtype and one.dtype in (torch.float32, torch.float64)
    return exact and one.device.type == "cpu" and not torch.compiler.is_compiling()
