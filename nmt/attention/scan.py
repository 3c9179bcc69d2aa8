"""A recurrence over the source whose memory use in training grows with √S instead of S.

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
"""(carry, inputs (B, …) at one position, parameters) -> (carry, outputs (B, …) at that position)"""


def scan(step: Step, carry: Tensor, inputs: Tensors, parameters: Tensors) -> tuple[Tensor, Tensors]:
    """Apply ``step`` to each position of the inputs (B, S, …), S ≥ 1; return the last carry and all outputs (B, S, …).

    Forward keeps the carry of every ⌈√S⌉-th position (a checkpoint). Backward runs the chunk after each checkpoint
    again, so there are never more than 2⌈√S⌉ carries. Inverting the recurrence would need no checkpoints, but the
    inverse of a decay loses all precision within tens of positions. Second derivatives are not supported.
    """
    if not torch.is_grad_enabled():
        return _run_without_graph(step, carry, inputs, parameters)
    last, *outputs = _Scan.apply(step, len(inputs), carry, *inputs, *parameters)  # type: ignore[no-untyped-call]
    return last, tuple(outputs)


def _run(step: Step, carry: Tensor, inputs: Sequence[Tensor], parameters: Tensors) -> tuple[Tensor, Tensors]:
    """Apply ``step`` position by position, recorded by autograd."""
    rows = []
    for position in _positions(inputs):
        carry, outputs = step(carry, position, parameters)
        rows.append(outputs)
    return carry, tuple(torch.stack(column, dim=1) for column in zip(*rows, strict=True))


def _run_without_graph(
    step: Step, carry: Tensor, inputs: Sequence[Tensor], parameters: Tensors
) -> tuple[Tensor, Tensors]:
    """Same computation without autograd; writes outputs into preallocated tensors.

    A list of outputs would fragment memory: each small output would occupy part of the block that an old carry freed,
    so no new carry would fit there, and memory would grow by one carry per position.
    """
    results: Tensors = ()
    for s, position in enumerate(_positions(inputs)):
        carry, outputs = step(carry, position, parameters)
        if not results:
            sizes = inputs[0].shape[:2]
            results = tuple(output.new_empty(*sizes, *output.shape[1:]) for output in outputs)
        for result, output in zip(results, outputs, strict=True):
            result[:, s] = output
    return carry, results


def _positions(inputs: Sequence[Tensor]) -> Iterator[Tensors]:
    """Yield the inputs (B, …) at each position."""
    return zip(*(tensor.unbind(1) for tensor in inputs), strict=True)


def _chunks(tensors: Sequence[Tensor], size: int) -> list[Tensors]:
    """Split the tensors (B, S, …) into chunks of ``size`` positions."""
    return list(zip(*(torch.split(tensor, size, dim=1) for tensor in tensors), strict=True))


class _Scan(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, step: Step, count: int, carry: Tensor, *tensors: Tensor) -> Tensors:
        inputs = tensors[:count]
        parameters = tensors[count:]
        ctx.step = step
        ctx.count = count
        ctx.size = ceil(sqrt(inputs[0].shape[1]))
        carries = []
        chunk_outputs = []
        for chunk in _chunks(inputs, ctx.size):
            carries.append(carry)
            carry, outputs = _run_without_graph(step, carry, chunk, parameters)
            chunk_outputs.append(outputs)
        ctx.save_for_backward(*tensors, *carries)
        return carry, *(torch.cat(column, dim=1) for column in zip(*chunk_outputs, strict=True))

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_carry: Tensor, *grad_outputs: Tensor) -> tuple[Any, ...]:
        needs_grad = ctx.needs_input_grad[2:]  # of the carry, the inputs and the parameters
        count = len(needs_grad) - 1
        tensors = ctx.saved_tensors[:count]
        carries = ctx.saved_tensors[count:]
        inputs = tensors[: ctx.count]
        parameters = [tensor.detach().requires_grad_() for tensor in tensors[ctx.count :]]
        grad_inputs: list[Sequence[Tensor]] = []
        grad_parameters = [torch.zeros_like(parameter) for parameter in parameters]
        chunks = zip(carries, _chunks(inputs, ctx.size), _chunks(grad_outputs, ctx.size), strict=True)
        for carry, chunk, grad_chunk in reversed(list(chunks)):
            carry = carry.detach().requires_grad_()
            chunk = tuple(tensor.detach().requires_grad_() for tensor in chunk)
            with torch.enable_grad():
                last, outputs = _run(ctx.step, carry, chunk, tuple(parameters))
            leaves = [carry, *chunk, *parameters]
            grad_carry, *grads = torch.autograd.grad([last, *outputs], leaves, [grad_carry, *grad_chunk])
            grad_inputs.append(grads[: ctx.count])
            for total, grad in zip(grad_parameters, grads[ctx.count :], strict=True):
                total += grad
        all_inputs = [torch.cat(column[::-1], dim=1) for column in zip(*grad_inputs, strict=True)]
        grads = [grad_carry, *all_inputs, *grad_parameters]
        return None, None, *(grad if needed else None for grad, needed in zip(grads, needs_grad, strict=True))
