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
    exact = queries.dtype == keys.dtype and queries.dtype in (torch.float32, torch.float64)
    if exact and queries.device.type == "cpu" and not torch.compiler.is_compiling():
        half = torch.sigmoid_((2 * queries)[:, :, None] + (2 * keys)[:, None])
        return 2 * (half @ v.weight[0]) - v.weight.sum()
    return v(torch.tanh_(queries[:, :, None] + keys[:, None])).squeeze(3)  # type: ignore[no-any-return]
