"""What the steps of a recurrence need not wait for, and what they have to."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from nmt.model.products import linear, packed, suits_onednn


class Recurrence:
    """inputs_t + weight x_t for one step after the other: inputs (T, B, …, G), weight (G, X).

    The steps wait for each other, but the gradient of the weight, Σ_t slope_t x_tᵀ, does not: it is one product of all
    steps, where autograd would make T small ones and add them up. Nor is the weight laid out anew for every step.
    """

    def __init__(self, inputs: Tensor, weight: Tensor) -> None:
        self._reads: list[Tensor] | None = None
        self._weight = weight
        if torch.is_grad_enabled() and not torch.compiler.is_compiling():
            self._reads, self._weight = [], weight.detach()
            inputs = _Together.apply(inputs, weight, self._reads)  # type: ignore[no-untyped-call]
        self._inputs = inputs.unbind(0)
        self._quick = suits_onednn(inputs, weight)
        self._packed = packed(self._weight, inputs.shape[1]) if self._quick else None

    def __call__(self, step: int, x: Tensor) -> Tensor:
        """(B, …, G) of one step, given what it reads (B, …, X). Each step is asked once, in order."""
        if self._reads is not None:
            self._reads.append(x.detach())
        if self._quick:
            found: Tensor = _Step.apply(self._inputs[step], x, self._weight, self._packed)  # type: ignore[no-untyped-call]
            return found
        return self._inputs[step] + linear(x, self._weight)


def lstm_cell(gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """Next hidden and cell state from gate scores (…, 4H) in PyTorch's order: input, forget, candidate, output."""
    plain = gates.dtype == cell.dtype and gates.dtype in (torch.float32, torch.float64)
    if plain and gates.device.type == "cpu" and not torch.compiler.is_compiling():
        hidden, cell = _Cell.apply(gates, cell)  # type: ignore[no-untyped-call]
        return hidden, cell
    enter, forget, candidate, leave = gates.chunk(4, dim=-1)
    cell = torch.sigmoid(forget) * cell + torch.sigmoid(enter) * torch.tanh(candidate)
    return torch.sigmoid(leave) * torch.tanh(cell), cell


class _Together(torch.autograd.Function):
    """The inputs as they are; their slopes, those of all steps, are what the weight's gradient needs."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor, reads: list[Tensor]) -> Tensor:
        ctx.reads = reads
        return inputs.view_as(inputs)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        x = torch.stack(ctx.reads).flatten(0, -2)
        by_weight = linear(x.t(), slope.flatten(0, -2).t()).t() if ctx.needs_input_grad[1] else None
        return slope, by_weight, None


class _Step(torch.autograd.Function):
    """inputs + weight x, but for the gradient of the weight."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, x: Tensor, weight: Tensor, packed: Tensor) -> Tensor:
        ctx.weight = weight
        return linear(x, packed).add_(inputs)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        by_x = linear(slope, ctx.weight.t()) if ctx.needs_input_grad[1] else None
        return slope, by_x, None, None


class _Cell(torch.autograd.Function):
    """``lstm_cell`` in few passes over its numbers, written where they stay: with autograd's own, each is one more."""

    @staticmethod
    def forward(ctx: Any, gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
        open_ = torch.sigmoid(gates)
        enter, forget, candidate, leave = open_.chunk(4, dim=-1)
        _tanh(gates.chunk(4, dim=-1)[2], candidate)
        after = (forget * cell).addcmul_(enter, candidate)
        squashed = _tanh(after, torch.empty_like(after))
        ctx.save_for_backward(open_, cell, squashed)
        return leave * squashed, after

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, by_hidden: Tensor, by_after: Tensor) -> tuple[Tensor, Tensor]:
        open_, cell, squashed = ctx.saved_tensors
        enter, forget, candidate, leave = open_.chunk(4, dim=-1)
        slope = torch.empty_like(open_)
        by_enter, by_forget, by_candidate, by_leave = slope.chunk(4, dim=-1)
        through = by_hidden * leave
        _BY_TANH(through, squashed, grad_input=through).add_(by_after)
        torch.mul(by_hidden, squashed, out=by_leave)
        torch.mul(through, candidate, out=by_enter)
        torch.mul(through, cell, out=by_forget)
        torch.mul(through, enter, out=by_candidate)
        both = 2 * enter.shape[-1]
        for given, score in ((slope[..., :both], open_[..., :both]), (by_leave, leave)):
            _BY_SIGMOID(given, score, grad_input=given)
        _BY_TANH(by_candidate, candidate, grad_input=by_candidate)
        return slope, through.mul_(forget)


_BY_SIGMOID, _BY_TANH = torch.ops.aten.sigmoid_backward.grad_input, torch.ops.aten.tanh_backward.grad_input


def _tanh(x: Tensor, out: Tensor) -> Tensor:
    """2 σ(2x) − 1, which is a third of the time of torch's tanh on a CPU."""
    return torch.mul(x, 2, out=out).sigmoid_().mul_(2).sub_(1)
