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
    fast as its own choice on the AMD processor that it was measured on (benchmarks/products.py). It multiplies bfloat16
    twice as fast again; that is for autocast to ask for.
    """
    if not suits_onednn(x, weight):
        return functional.linear(x, weight, bias)
    rows = as_multiplied(x.reshape(-1, x.shape[-1]))
    bias = bias if bias is None else as_multiplied(bias)
    found: Tensor = _Linear.apply(rows, as_multiplied(weight), bias)  # type: ignore[no-untyped-call]
    return found.reshape(*x.shape[:-1], -1)


def suits_onednn(x: Tensor, weight: Tensor) -> bool:
    """Whether ``linear`` asks oneDNN for their product."""
    return (
        _MULTIPLY is not None
        and x.device.type == weight.device.type == "cpu"
        and _multiplied_in(x) == _multiplied_in(weight)
        and _multiplied_in(x) in _DTYPES
        and min(x.numel(), weight.numel()) > 0
        and not torch.compiler.is_compiling()  # graphs are to see what it means, not how it is done
    )


def as_multiplied(x: Tensor) -> Tensor:
    """x as autocast has it multiplied, in bfloat16 perhaps."""
    return x.to(_multiplied_in(x))


def multiply(x: Tensor, weight: Tensor) -> Tensor:
    """x (…, in) → x weightᵀ (…, out), for what suits oneDNN, without gradients; the weight may be ``packed``."""
    rows = x.reshape(-1, x.shape[-1])
    return _product(on_grid(_dense(rows)), weight)[: len(rows)].view(*x.shape[:-1], -1)


def by_weight(x: Tensor, slope: Tensor) -> Tensor:
    """The gradient (G, X) of the weight that met the rows x (N, X), of which slope (N, G) came back."""
    if not suits_onednn(x, slope):
        return slope.t() @ x
    x, slope = on_grid(as_multiplied(x)), on_grid(as_multiplied(slope))
    if x.dtype == torch.bfloat16:  # which torch itself has oneDNN multiply
        return slope.t() @ x
    # With the shorter side as rows it is the faster one, even where its result has to be turned round.
    if slope.shape[1] < x.shape[1]:
        return multiply(slope.t(), x.t())
    return multiply(x.t(), slope.t()).t()


def packed(weight: Tensor, rows: int) -> Tensor:
    """The weight as oneDNN wants it laid out for products of so many rows: for ``multiply`` alone.

    A product is a quarter faster then; laying it out takes as long as half a product of 128 rows.
    """
    if _PACK is None or not suits_onednn(weight, weight):
        return weight
    laid_out: Tensor = _PACK(weight.contiguous(), rows)
    return laid_out


def use_linear(model: nn.Module) -> None:
    """Let every plain ``nn.Linear`` within the model multiply as ``linear`` does; nothing else of it changes."""
    for module in model.modules():
        if type(module) is nn.Linear:
            module.__class__ = _LinearLayer


class _LinearLayer(nn.Linear):
    def forward(self, input: Tensor) -> Tensor:
        return linear(input, self.weight, self.bias)


# Its name has an underscore, but the compiler of torch has relied on it since 2.0.
_MULTIPLY, _PACK = (
    getattr(torch.ops.mkldnn, name, None) if torch.backends.mkldnn.is_available() else None  # type: ignore[no-untyped-call]
    for name in ("_linear_pointwise", "_reorder_linear_weight")
)
_BFLOAT16 = _MULTIPLY is not None and torch.ops.mkldnn._is_mkldnn_bf16_supported()
_DTYPES = (torch.float32, torch.bfloat16) if _BFLOAT16 else (torch.float32,)


def _multiplied_in(x: Tensor) -> torch.dtype:
    kind = x.device.type
    if x.dtype == torch.float64 or not torch.amp.is_autocast_available(kind) or not torch.is_autocast_enabled(kind):
        return x.dtype
    return torch.get_autocast_dtype(kind)


def _product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    assert _MULTIPLY is not None
    found: Tensor = _MULTIPLY(x, _dense(weight), bias, "none", [], "")
    return found


def grid(rows: int) -> int:
    """The number of rows that is multiplied instead of so many: at most 7 or a sixteenth more.

    oneDNN writes a program for every shape and keeps it, up to a megabyte each: a thousand lengths would be a gigabyte.
    """
    step = max(8, 1 << rows.bit_length() >> 5)
    return rows if rows < 8 else -(-rows // step) * step


def on_grid(x: Tensor) -> Tensor:
    """x with rows of zeros behind it, as many as the grid asks for."""
    missing = grid(len(x)) - len(x)
    return functional.pad(x, (0, 0, 0, missing)) if missing else x


def _dense(matrix: Tensor) -> Tensor:
    """The matrix, copied if it is a part of a wider one: oneDNN has no fast way for that, and takes minutes."""
    if matrix.is_contiguous() or matrix.t().is_contiguous():
        return matrix
    return matrix.contiguous() if matrix.stride(1) == 1 else matrix.t().contiguous().t()  # along its rows


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        rows = on_grid(_dense(x))  # once, for the weight's gradient as well
        ctx.save_for_backward(rows, weight)
        return _product(rows, weight, bias)[: len(x)]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        wanted = ctx.needs_input_grad
        rows = on_grid(_dense(slope))
        return (
            _product(rows, weight.t())[: len(slope)] if wanted[0] else None,
            by_weight(x, rows) if wanted[1] else None,
            slope.sum(0) if wanted[2] else None,
        )
