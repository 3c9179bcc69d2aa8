"""What the steps of a recurrence need not wait for, and what they have to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from nmt.kernels.additive import sigmoid_serves
from nmt.kernels.products import as_multiplied, by_weight, linear, multiply, packed, suits_onednn


class Recurrence:
    """inputs_t + Σ_i W_i x_it for one step after the other: inputs (T, B, …, G), each W_i (G, X_i).

    The steps wait for each other, but the gradient of a weight, Σ_t slope_t x_itᵀ, does not: it is one product of all
    steps, where autograd would make T small ones and add them up. Nor is a weight laid out anew for every step.
    """

    def __init__(self, inputs: Tensor, *weights: Tensor) -> None:
        self._reads: list[tuple[Tensor, ...]] | None = None
        self._quick = all(suits_onednn(inputs, weight) for weight in weights)
        if torch.is_grad_enabled() and not torch.compiler.is_compiling():
            self._reads = []
            inputs = _Together.apply(inputs, self._reads, *weights)  # type: ignore[no-untyped-call]
            weights = tuple(weight.detach().contiguous() for weight in weights)
        weights = tuple(as_multiplied(weight) for weight in weights)  # once, not in each step
        self._inputs = inputs.unbind(0)
        self._weights = weights
        self._packed = [packed(weight, inputs.shape[1]) for weight in weights] if self._quick else []

    def __call__(self, step: int, *reads: Tensor) -> Tensor:
        """(B, …, G) of one step, given what each weight meets, (B, …, X_i). Each step is asked once, in order."""
        reads = tuple(as_multiplied(x) for x in reads)
        if self._reads is not None:
            self._reads.append(tuple(x.detach() for x in reads))
        if self._quick:
            gates: Tensor = _Step.apply(self._inputs[step], self._weights, self._packed, *reads)  # type: ignore[no-untyped-call]
            return gates
        inputs = _wide(self._inputs[step])
        return inputs + sum(linear(x, weight) for x, weight in zip(reads, self._weights, strict=True))


def lstm_cell(gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """Next hidden and cell state from gate scores (…, 4H) in PyTorch's order: input, forget, candidate, output."""
    if sigmoid_serves(gates, cell):
        hidden, cell = _Cell.apply(gates, cell)  # type: ignore[no-untyped-call]
        return hidden, cell
    enter, forget, candidate, leave = gates.chunk(4, dim=-1)
    cell = torch.sigmoid(forget) * cell + torch.sigmoid(enter) * torch.tanh(candidate)
    return torch.sigmoid(leave) * torch.tanh(cell), cell


def _wide(x: Tensor) -> Tensor:
    """x in float32 at least: only what is multiplied may be rough, not what adds up from step to step."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


class _Together(torch.autograd.Function):
    """The inputs as they are; their slopes, those of all steps, are what the gradients of the weights need."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, reads: list[tuple[Tensor, ...]], *weights: Tensor) -> Tensor:
        ctx.reads = reads
        return inputs.view_as(inputs)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        rows = slope.flatten(0, -2)
        found = [
            by_weight(torch.stack(x).flatten(0, -2), rows.to(x[0].dtype)) if wanted else None
            for x, wanted in zip(zip(*ctx.reads, strict=True), ctx.needs_input_grad[2:], strict=True)
        ]
        return slope, None, *found


class _Step(torch.autograd.Function):
    """inputs + Σ_i W_i x_i, but for the gradients of the weights."""

    @staticmethod
    def forward(
        ctx: Any, inputs: Tensor, weights: Sequence[Tensor], laid_out: Sequence[Tensor], *reads: Tensor
    ) -> Tensor:
        ctx.weights = weights
        first, *more = (multiply(x, weight) for x, weight in zip(reads, laid_out, strict=True))
        gates = _wide(first).add_(inputs)
        for each in more:
            gates += each
        return gates

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        wanted = zip(ctx.weights, ctx.needs_input_grad[3:], strict=True)
        rows = slope.to(ctx.weights[0].dtype)
        return slope, None, None, *(multiply(rows, weight.t()) if needed else None for weight, needed in wanted)


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
