"""A recurrence over the source whose training memory grows with √S, not with S.

Chen et al. (2016), Training Deep Nets with Sublinear Memory Cost, arXiv 1604.06174, §3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import ceil, sqrt
from typing import Any

import torch
from torch import Tensor

Tensors = tuple[Tensor, ...]
Step = Callable[[Tensor, Tensors, Tensors], tuple[Tensor, Tensors]]
"""(carry, inputs (B, …) of one position, parameters) -> (carry, outputs (B, …) of that position)"""


def scan(step: Step, carry: Tensor, inputs: Tensors, parameters: Tensors) -> tuple[Tensor, Tensors]:
    """The last carry, and all outputs (B, S, …), of ``step`` over inputs (B, S, …), S ≥ 1.

    Forward keeps the carry of every ⌈√S⌉-th position only. Backward goes from each to the next once more, keeping
    then what that stretch needs: at no time more than 2⌈√S⌉ carries. Running the recurrence backwards instead would
    need none, but undoing decays loses every digit within some tens of positions. One derivative, not two.
    """
    if not torch.is_grad_enabled():
        return _forward(step, carry, inputs, parameters)
    last, *outputs = _Scan.apply(step, len(inputs), carry, *inputs, *parameters)  # type: ignore[no-untyped-call]
    return last, tuple(outputs)


def _stretch(step: Step, carry: Tensor, inputs: Sequence[Tensor], parameters: Tensors) -> tuple[Tensor, Tensors]:
    """Position after position, as autograd would do it."""
    found = []
    for position in _positions(inputs):
        carry, outputs = step(carry, position, parameters)
        found.append(outputs)
    return carry, tuple(torch.stack(each, dim=1) for each in zip(*found, strict=True))


def _forward(step: Step, carry: Tensor, inputs: Sequence[Tensor], parameters: Tensors) -> tuple[Tensor, Tensors]:
    """The same without a graph. Outputs go where they stay: kept one by one, they would settle in the room that each
    carry leaves behind, so that no later carry fits into it, and memory would grow by a carry a position."""
    together: Tensors = ()
    for place, position in enumerate(_positions(inputs)):
        carry, outputs = step(carry, position, parameters)
        if not together:
            sizes = inputs[0].shape[:2]
            together = tuple(each.new_empty(*sizes, *each.shape[1:]) for each in outputs)
        for all_of_it, each in zip(together, outputs, strict=True):
            all_of_it[:, place] = each
    return carry, together


def _positions(inputs: Sequence[Tensor]) -> Iterator[Tensors]:
    return zip(*(each.unbind(1) for each in inputs), strict=True)


class _Scan(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, step: Step, count: int, carry: Tensor, *tensors: Tensor) -> Tensors:
        inputs, parameters = tensors[:count], tensors[count:]
        ctx.step, ctx.count, ctx.size = step, count, ceil(sqrt(inputs[0].shape[1]))
        carries, outputs = [], []
        for stretch in zip(*(torch.split(each, ctx.size, dim=1) for each in inputs), strict=True):
            carries.append(carry)
            carry, found = _forward(step, carry, stretch, parameters)
            outputs.append(found)
        ctx.save_for_backward(*tensors, *carries)
        return carry, *(torch.cat(each, dim=1) for each in zip(*outputs, strict=True))

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, last: Tensor, *outputs: Tensor) -> tuple[Any, ...]:
        given, starts = ctx.needs_input_grad[2:], len(ctx.needs_input_grad) - 3
        tensors, carries = ctx.saved_tensors[:starts], ctx.saved_tensors[starts:]
        inputs, parameters = tensors[: ctx.count], [each.detach().requires_grad_() for each in tensors[ctx.count :]]
        stretches = list(zip(*(torch.split(each, ctx.size, dim=1) for each in inputs), strict=True))
        wanted = list(zip(*(torch.split(each, ctx.size, dim=1) for each in outputs), strict=True))
        of_inputs: list[Sequence[Tensor]] = []
        of_parameters = [torch.zeros_like(each) for each in parameters]
        for carry, stretch, grads in reversed(list(zip(carries, stretches, wanted, strict=True))):
            carry = carry.detach().requires_grad_()
            stretch = [each.detach().requires_grad_() for each in stretch]
            with torch.enable_grad():
                end, found = _stretch(ctx.step, carry, stretch, tuple(parameters))
            leaves = [carry, *stretch, *parameters]
            last, *rest = torch.autograd.grad([end, *found], leaves, [last, *grads])
            of_inputs.append(rest[: ctx.count])
            for total, more in zip(of_parameters, rest[ctx.count :], strict=True):
                total += more
        along = [torch.cat(each[::-1], dim=1) for each in zip(*of_inputs, strict=True)]
        found_all = [last, *along, *of_parameters]
        return None, None, *(grad if wants else None for grad, wants in zip(found_all, given, strict=True))
