"""Cross-entropy of an output layer, computed in chunks so that the logits never all exist at once."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from nmt.kernels import enabled
from nmt.kernels.products import grid_size, linear, pad_to_grid, to_product_dtype, weight_grad

CHUNK = 1 << 23  # logits per chunk: 32 MB in float32


def output_loss(layer: nn.Linear, features: Tensor, pieces: Tensor, mask: Tensor, *, smoothing: float = 0.0) -> Tensor:
    """Return the mean of −log p(piece) in nats over real positions, smoothed with the uniform distribution.

    features (B, T, F); pieces and mask (B, T), True where real. The logits (P, V) of the P real positions are by far
    the largest tensor of a training step. They are computed in chunks of rows, and each chunk is turned into its
    gradient in place, during the forward pass. If gradients are off, only the loss is computed. The loss is float32
    unless the features are float64.
    """
    if not enabled():
        logits = functional.linear(features[mask], layer.weight, layer.bias)
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        return functional.cross_entropy(logits, pieces[mask], label_smoothing=smoothing)
    needs_grad = torch.is_grad_enabled()  # always off inside the function
    loss: Tensor = _OutputLoss.apply(features, layer.weight, layer.bias, pieces, mask, smoothing, needs_grad)  # type: ignore[no-untyped-call]
    return loss


class _OutputLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        features: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        pieces: Tensor,
        mask: Tensor,
        smoothing: float,
        needs_grad: bool,
    ) -> Tensor:
        ctx.mask, features, pieces = mask, features[mask], pieces[mask]
        count = len(pieces)
        vocabulary = len(weight)
        rows = grid_size(-(-count // -(-count * vocabulary // CHUNK)))  # chunks of equal size: one shape to multiply
        total = features.new_zeros((), dtype=torch.float32 if features.dtype != torch.float64 else torch.float64)
        ctx.features_grad = torch.empty_like(features) if needs_grad else None
        for first in range(0, count, rows):
            chunk = slice(first, first + rows)
            targets = pieces[chunk, None]
            real = len(targets)
            x = to_product_dtype(pad_to_grid(features[chunk]))  # once, for all three products
            padded_logits = linear(x, weight, bias).to(total.dtype)
            padded_grad = padded_logits.softmax(1)  # p now; p − q, the gradient of the logits, below
            logits = padded_logits[:real]
            logits_grad = padded_grad[:real]
            # log Σ exp from the largest p, which is never 0. torch.logsumexp takes longer than the whole softmax.
            log_sum = logits.amax(1) - logits_grad.amax(1).log()
            # −Σ_v q_v log p_v with q = (1 − ε) one-hot + ε / V
            total += log_sum.sum() - (1 - smoothing) * logits.gather(1, targets).sum()
            if smoothing:
                total -= smoothing * logits.mean(1).sum()
            if needs_grad:
                if smoothing:
                    logits_grad -= smoothing / vocabulary
                logits_grad.scatter_add_(1, targets, logits_grad.new_full(targets.shape, smoothing - 1))
                padded_grad[real:] = 0
                padded_grad = padded_grad.to(x.dtype)
                ctx.features_grad[chunk] = linear(padded_grad, weight.t())[:real]
                if ctx.needs_input_grad[1]:
                    grad = weight_grad(x, padded_grad).to(weight.dtype)
                    ctx.weight_grad = ctx.weight_grad.add_(grad) if first else grad
                if bias is not None and ctx.needs_input_grad[2]:
                    grad = padded_grad.sum(0).to(bias.dtype)
                    ctx.bias_grad = ctx.bias_grad.add_(grad) if first else grad
        ctx.count = count
        return total / count

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        scale = grad_output / ctx.count
        features_grad = ctx.features_grad.new_zeros(*ctx.mask.shape, ctx.features_grad.shape[1])
        features_grad[ctx.mask] = ctx.features_grad * scale
        grad = bias_grad = None
        if ctx.needs_input_grad[1]:
            # ``weight_grad`` may return a transposed tensor. This one is row-major, like the weight.
            grad = torch.mul(ctx.weight_grad, scale, out=ctx.weight_grad.new_empty(ctx.weight_grad.shape))
        if ctx.needs_input_grad[2]:
            bias_grad = ctx.bias_grad * scale
        return features_grad, grad, bias_grad, None, None, None, None
