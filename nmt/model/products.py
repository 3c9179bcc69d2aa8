"""Products with weights, by the library that multiplies them fastest on a CPU."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x (…, in), weight (out, in), bias (out,) → x weightᵀ + bias (…, out), as ``torch.nn.functional.linear``.

    On a CPU, float32 goes to oneDNN, which torch itself asks for LSTMs and convolutions but not here: about twice as
    fast as its own choice on the AMD processor that it was measured on (benchmarks/products.py).
    """
    if not _suits_onednn(x, weight):
        return functional.linear(x, weight, bias)
    rows = x.reshape(-1, x.shape[-1])
    found: Tensor = _Linear.apply(rows, weight, bias)  # type: ignore[no-untyped-call]
    return found.reshape(*x.shape[:-1], -1)


class Recurrence:
    """The gates of a recurrence, inputs_t + weight x_t for one step after the other: inputs (B, T, G), weight (G, X).

    The steps wait for each other, but the gradient of the weight, Σ_t slope_t x_tᵀ, does not: it is one product of all
    steps, where autograd would make T small ones and add them up.
    """

    def __init__(self, inputs: Tensor, weight: Tensor) -> None:
        self._reads: list[Tensor] | None = None
        self._weight = weight
        if torch.is_grad_enabled() and not torch.compiler.is_compiling():
            self._reads, self._weight = [], weight.detach()
            inputs = _Together.apply(inputs, weight, self._reads)  # type: ignore[no-untyped-call]
        self._inputs = inputs.unbind(1)

    def gates(self, step: int, x: Tensor) -> Tensor:
        """(B, G) of one step, given what it reads (B, X). Each step is asked once, in order."""
        if self._reads is not None:
            self._reads.append(x.detach())
        return self._inputs[step] + linear(x, self._weight)


def use_linear(model: nn.Module) -> None:
    """Let every plain ``nn.Linear`` within the model multiply as ``linear`` does; nothing else of it changes."""
    for module in model.modules():
        if type(module) is nn.Linear:
            module.__class__ = _LinearLayer


class _LinearLayer(nn.Linear):
    def forward(self, input: Tensor) -> Tensor:
        return linear(input, self.weight, self.bias)


def _suits_onednn(x: Tensor, weight: Tensor) -> bool:
    return (
        _MULTIPLY is not None
        and x.dtype == weight.dtype == torch.float32
        and x.device.type == weight.device.type == "cpu"
        and x.numel() > 0
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()  # graphs are to see what it means, not how it is done
    )


# Its name has an underscore, but the compiler of torch has relied on it since 2.0.
_MULTIPLY = getattr(torch.ops.mkldnn, "_linear_pointwise", None) if torch.backends.mkldnn.is_available() else None  # type: ignore[no-untyped-call]


def _product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    assert _MULTIPLY is not None
    found: Tensor = _MULTIPLY(_dense(x), _dense(weight), bias, "none", [], "")
    return found


def _dense(matrix: Tensor) -> Tensor:
    """The matrix, copied if it is a part of a wider one: oneDNN has no fast way for that, and takes minutes."""
    return matrix if matrix.is_contiguous() or matrix.t().is_contiguous() else matrix.contiguous()


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return _product(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        by_x, by_weight, by_bias = ctx.needs_input_grad
        return (
            _product(slope, weight.t()) if by_x else None,
            _product(x.t(), slope.t()).t() if by_weight else None,  # this way round it is the faster one
            slope.sum(0) if by_bias else None,
        )


class _Together(torch.autograd.Function):
    """The inputs as they are; their slopes, those of all steps, are what the weight's gradient needs."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor, reads: list[Tensor]) -> Tensor:
        ctx.reads = reads
        return inputs.view_as(inputs)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        x = torch.stack(ctx.reads, dim=1).flatten(0, 1)
        by_weight = linear(x.t(), slope.flatten(0, 1).t()).t() if ctx.needs_input_grad[1] else None
        return slope, by_weight, None
