"""Outputs of a function, compared with those of a plain one, gradients included."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Function = Callable[..., tuple[Tensor, ...]]


def with_gradients(compute: Function, *leaves: Tensor) -> list[Tensor]:
    """All outputs, and the gradient of each leaf for a random weighted sum of the outputs."""
    leaves = tuple(leaf.detach().clone().requires_grad_() for leaf in leaves)
    outputs = compute(*leaves)
    torch.manual_seed(5)
    gradients = torch.autograd.grad(outputs, leaves, [torch.randn_like(output) for output in outputs])
    return [*(output.detach() for output in outputs), *gradients]


def assert_equal(function: Function, reference: Function, *leaves: Tensor) -> None:
    """Compare outputs and gradients, and the outputs without autograd."""
    results = zip(with_gradients(function, *leaves), with_gradients(reference, *leaves), strict=True)
    for result, expected in results:
        torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-5)
    with torch.no_grad():
        for result, expected in zip(function(*leaves), reference(*leaves), strict=True):
            torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-5)
