"""Cross-entropy of an output layer whose logits never stand in memory all at once."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from nmt.kernels.products import as_multiplied, by_weight, grid, linear, on_grid

CHUNK = 1 << 23  # logits at a time: 32 MB in float32


def output_loss(layer: nn.Linear, features: Tensor, pieces: Tensor, mask: Tensor, *, smoothing: float = 0.0) -> Tensor:
    """Mean of −log p(piece) in nats, smoothed with the uniform distribution: features (B, T, F), pieces, mask (B, T).

    The same number as ``cross_entropy(layer(features[mask]), pieces[mask], label_smoothing=smoothing)``. These logits
    (P, V) are by far the largest numbers of a training step; here each chunk of rows is scored, turned into its
    gradient in place and multiplied on, forwards and backwards at once. Without gradients only the loss is computed.
    """
    wanted = torch.is_grad_enabled()  # within the function it never is
    loss: Tensor = _OutputLoss.apply(features, layer.weight, layer.bias, pieces, mask, smoothing, wanted)  # type: ignore[no-untyped-call]
    return loss


class _OutputLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        features: Tensor,
        weight: Tensor,
        bias: Tensor,
        pieces: Tensor,
        mask: Tensor,
        smoothing: float,
        wanted: bool,
    ) -> Tensor:
        ctx.mask, features, pieces = mask, features[mask], pieces[mask]
        count, vocabulary = len(pieces), len(weight)
        rows = grid(-(-count // -(-count * vocabulary // CHUNK)))  # even chunks: one shape to multiply
        total = features.new_zeros((), dtype=torch.float32 if features.dtype != torch.float64 else torch.float64)
        ctx.by_features = torch.empty_like(features) if wanted else None
        for first in range(0, count, rows):
            here = slice(first, first + rows)
            chosen = pieces[here, None]
            real = len(chosen)
            x = as_multiplied(on_grid(features[here]))  # here once, not in each of the three products
            scores = linear(x, weight, bias).to(total.dtype)
            whole = scores.softmax(1)  # p, to become p − q
            logits, slope = scores[:real], whole[:real]
            # log Σ exp, from where p is largest and never 0: torch's own takes longer than all of softmax.
            norm = logits.amax(1) - slope.amax(1).log()
            # −Σ_v q_v log p_v with q = (1 − ε) one-hot + ε / V
            total += norm.sum() - (1 - smoothing) * logits.gather(1, chosen).sum()
            if smoothing:
                total -= smoothing * logits.mean(1).sum()
            if wanted:
                if smoothing:
                    slope -= smoothing / vocabulary
                slope.scatter_add_(1, chosen, slope.new_full(chosen.shape, smoothing - 1))
                whole[real:] = 0
                whole = whole.to(x.dtype)
                ctx.by_features[here] = linear(whole, weight.t())[:real]
                each = by_weight(x, whole).to(weight.dtype), whole.sum(0).to(bias.dtype)
                ctx.sums = [old.add_(new) for old, new in zip(ctx.sums, each, strict=True)] if first else each
        ctx.count = count
        return total / count

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        slope = slope / ctx.count
        by_features = ctx.by_features.new_zeros(*ctx.mask.shape, ctx.by_features.shape[1])
        by_features[ctx.mask] = ctx.by_features * slope
        weights, biases = ctx.sums
        # Row by row, as the weight lies: ``by_weight`` may have had its columns as rows.
        weights = torch.mul(weights, slope, out=weights.new_empty(weights.shape))
        return by_features, weights, biases * slope, None, None, None, None
