"""Products with weights, computed by oneDNN where that is faster."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from nmt.kernels import enabled, operators

LEAST_MULTIPLICATIONS = 1 << 19
"""Smaller products are faster without oneDNN, which takes 30 µs even for a single number."""


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return x weightᵀ + bias (…, out) for x (…, in), weight (out, in) and bias (out,), like ``functional.linear``.

    On a CPU, oneDNN computes float32 products. torch itself uses oneDNN for LSTMs and convolutions, but not here. On
    the AMD processor of benchmarks/speed/products.py, oneDNN takes about half the time. Under autocast, it multiplies
    in bfloat16, which is twice as fast again.
    """
    if not can_use_onednn(x, weight) or x.numel() * len(weight) < LEAST_MULTIPLICATIONS:
        return functional.linear(x, weight, bias)
    rows = to_product_dtype(x.reshape(-1, x.shape[-1]))
    bias = bias if bias is None else to_product_dtype(bias)
    output: Tensor = _Linear.apply(rows, to_product_dtype(weight), bias)  # type: ignore[no-untyped-call]
    return output.reshape(*x.shape[:-1], -1)


def weight_grad(x: Tensor, grad_output: Tensor) -> Tensor:
    """Return the gradient of a weight (out, in), given its inputs x (N, in) and the output gradient (N, out)."""
    if not can_use_onednn(x, grad_output):
        return grad_output.t() @ x
    x, grad_output = pad_to_grid(to_product_dtype(x)), pad_to_grid(to_product_dtype(grad_output))
    if x.dtype == torch.bfloat16:  # here torch itself uses oneDNN
        return grad_output.t() @ x
    # The product with fewer rows is faster, even if its result has to be transposed.
    if grad_output.shape[1] < x.shape[1]:
        return multiply(grad_output.t(), x.t())
    return multiply(x.t(), grad_output.t()).t()


def can_use_onednn(x: Tensor, weight: Tensor) -> bool:
    """Return whether ``linear`` computes the product of these tensors with oneDNN."""
    return (
        enabled()
        and not torch.compiler.is_compiling()  # graphs contain the plain operation
        and x.device.type == weight.device.type == "cpu"
        and product_dtype(x) == product_dtype(weight)
        and operators.can_multiply(product_dtype(x))
        and min(x.numel(), weight.numel()) > 0
    )


def product_dtype(x: Tensor) -> torch.dtype:
    """Return the dtype in which x is multiplied: autocast's dtype where autocast is on, otherwise that of x."""
    kind = x.device.type
    if x.dtype == torch.float64 or not torch.amp.is_autocast_available(kind) or not torch.is_autocast_enabled(kind):
        return x.dtype
    return torch.get_autocast_dtype(kind)


def to_product_dtype(x: Tensor) -> Tensor:
    """Return x in the dtype in which it is multiplied."""
    return x.to(product_dtype(x))


def multiply(x: Tensor, weight: Tensor) -> Tensor:
    """Return x weightᵀ (…, out) for x (…, in), by oneDNN and without gradients.

    Only for tensors that pass ``can_use_onednn``. The weight may come from ``pack_weight``.
    """
    rows = x.reshape(-1, x.shape[-1])
    return _product(pad_to_grid(_dense(rows)), weight)[: len(rows)].view(*x.shape[:-1], -1)


def pack_weight(weight: Tensor, rows: int) -> Tensor:
    """Return the weight in oneDNN's layout for products with ``rows`` rows; only ``multiply`` can read it.

    It makes a product a quarter faster. Packing takes as long as half a product with 128 rows.
    """
    if not (can_use_onednn(weight, weight) and operators.can_pack(weight.dtype)):
        return weight
    return operators.onednn_pack(weight.contiguous(), rows)


def use_fast_linear(model: nn.Module) -> None:
    """Make every plain ``nn.Linear`` in the model compute with ``linear``. Names and parameters stay the same."""
    for module in model.modules():
        if type(module) is nn.Linear:
            module.__class__ = _FastLinear


class _FastLinear(nn.Linear):
    def forward(self, input: Tensor) -> Tensor:
        return linear(input, self.weight, self.bias)


def grid_size(rows: int) -> int:
    """Return the next size in the grid of row counts: at most 7 rows or a sixteenth more than ``rows``.

    oneDNN caches one kernel of up to a megabyte per shape. Without a grid, a thousand lengths would take a gigabyte.
    """
    step = max(8, 1 << rows.bit_length() >> 5)
    return rows if rows < 8 else -(-rows // step) * step


def pad_to_grid(x: Tensor) -> Tensor:
    """Pad x with zero rows up to the next size in the grid."""
    missing = grid_size(len(x)) - len(x)
    return functional.pad(x, (0, 0, 0, missing)) if missing else x


def _product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return operators.onednn_linear(x, _dense(weight), bias)


def _dense(matrix: Tensor) -> Tensor:
    """Return a contiguous copy of a matrix that is part of a wider one. oneDNN takes minutes for such a part."""
    if matrix.is_contiguous() or matrix.t().is_contiguous():
        return matrix
    return matrix.contiguous() if matrix.stride(1) == 1 else matrix.t().contiguous().t()  # keeps its memory order


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        rows = pad_to_grid(_dense(x))  # the gradient of the weight uses them again
        ctx.save_for_backward(rows, weight)
        return _product(rows, weight, bias)[: len(x)]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        needs_grad = ctx.needs_input_grad
        rows = pad_to_grid(_dense(grad_output))
        return (
            _product(rows, weight.t())[: len(grad_output)] if needs_grad[0] else None,
            weight_grad(x, rows) if needs_grad[1] else None,
            grad_output.sum(0) if needs_grad[2] else None,
        )
