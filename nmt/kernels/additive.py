"""Additive attention scores, as Bahdanau's attention and Luong's concat score use them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

BLOCK = 2**22  # sums that are in memory at a time without gradients: 16 MB in float32


def additive_scores(v: nn.Linear, queries: Tensor, keys: Tensor) -> Tensor:
    """Return vᵀ tanh(q_t + k_s) (B, Q, S) for projected queries (B, Q, A) and keys (B, S, A).

    The sums (B, Q, S, A) are by far the largest tensor of a training step, so they are changed in place. Without
    gradients they are computed in blocks: all sums of a sentence of 4,000 words and its translation take 16 GB.
    """
    if torch.is_grad_enabled() or torch.compiler.is_compiling():
        return _scores(v, queries, keys)
    batch, count, _ = queries.shape
    at_once = BLOCK // max(1, keys[0].numel()) if batch else 0  # queries of one sentence
    rows = max(1, at_once // max(1, count))
    columns = max(1, at_once)
    if rows >= batch and columns >= count:
        return _scores(v, queries, keys)
    blocks = [
        torch.cat([_scores(v, part, some_keys) for part in torch.split(some_queries, columns, dim=1)], dim=1)
        for some_queries, some_keys in zip(torch.split(queries, rows), torch.split(keys, rows), strict=True)
    ]
    return torch.cat(blocks)


def _scores(v: nn.Linear, queries: Tensor, keys: Tensor) -> Tensor:
    """Return the scores of ``additive_scores`` from all sums at once.

    On a CPU tanh x is computed as 2 σ(2x) − 1, since torch's sigmoid takes an eighth of the time of its tanh there. The
    error is one unit in the last place of 1, even where tanh x is small. That is good enough in float32, but not in
    bfloat16.
    """
    is_exact = queries.dtype == keys.dtype and queries.dtype in (torch.float32, torch.float64)
    if not is_exact or queries.device.type != "cpu" or torch.compiler.is_compiling():
        return v(torch.tanh_(queries[:, :, None] + keys[:, None])).squeeze(3)  # type: ignore[no-any-return]
    sigmoid = torch.sigmoid_((2 * queries)[:, :, None] + (2 * keys)[:, None])
    return 2 * (sigmoid @ v.weight[0]) - v.weight.sum()
