"""Private torch operators that the fast paths call, each checked before its first use.

torch's own compiler depends on these operators, but any release may change them. If an operator is missing, raises,
warns or gives a wrong result in a small example, its callers take their plain path.

To test another torch release, install it in a separate environment and run the tests of the fast paths there:
``pip install -e '.[dev]' 'torch==2.11.*'``, then ``pytest tests/kernels tests/model``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import cache

import torch
from torch import Tensor


def onednn_linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return x weightᵀ + bias (N, out) for x (N, in) and weight (out, in), computed by oneDNN."""
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")  # type: ignore[no-any-return]


def onednn_pack(weight: Tensor, rows: int) -> Tensor:
    """Return the weight (out, in) in oneDNN's own layout for products with ``rows`` rows."""
    return torch.ops.mkldnn._reorder_linear_weight(weight, rows)  # type: ignore[no-any-return]


def sigmoid_backward(grad_output: Tensor, output: Tensor, *, grad_input: Tensor) -> Tensor:
    """Write the gradient of a sigmoid, given its output, into ``grad_input`` and return it."""
    return torch.ops.aten.sigmoid_backward.grad_input(grad_output, output, grad_input=grad_input)  # type: ignore[no-any-return]


def tanh_backward(grad_output: Tensor, output: Tensor, *, grad_input: Tensor) -> Tensor:
    """Write the gradient of a tanh, given its output, into ``grad_input`` and return it."""
    return torch.ops.aten.tanh_backward.grad_input(grad_output, output, grad_input=grad_input)  # type: ignore[no-any-return]


@cache
def can_multiply(dtype: torch.dtype) -> bool:
    """Return whether ``onednn_linear`` works for this dtype, and is fast for it on this processor."""
    return dtype in (torch.float32, torch.bfloat16) and _passes(lambda: _check_linear(dtype))


@cache
def can_pack(dtype: torch.dtype) -> bool:
    """Return whether ``onednn_linear`` can read weights of this dtype from ``onednn_pack``."""
    return can_multiply(dtype) and _passes(lambda: _check_pack(dtype))


@cache
def can_differentiate() -> bool:
    """Return whether ``sigmoid_backward`` and ``tanh_backward`` work."""
    return _passes(_check_backward)


def _passes(check: Callable[[], bool]) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # an operator that warns here would warn in every step
        try:
            return check()
        except Exception:  # an operator that has changed may raise anything
            return False


# The numbers of the checks are exact in every dtype, so no tolerance is needed.
X = [[1, 2, 3], [4, 5, 6]]
WEIGHT = [[1, 0, -1], [2, 1, 0]]
BIAS = [1, -1]
PRODUCT = [[-2, 4], [-2, 13]]
PRODUCT_AND_BIAS = [[-1, 3], [-1, 12]]


def _tensor(values: Sequence[object], dtype: torch.dtype) -> Tensor:
    return torch.tensor(values, dtype=dtype, device="cpu")  # also inside ``with torch.device("meta")``


def _check_linear(dtype: torch.dtype) -> bool:
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    if dtype == torch.bfloat16 and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return False
    x, weight, bias = (_tensor(values, dtype) for values in (X, WEIGHT, BIAS))
    return torch.equal(onednn_linear(x, weight), _tensor(PRODUCT, dtype)) and torch.equal(
        onednn_linear(x, weight, bias), _tensor(PRODUCT_AND_BIAS, dtype)
    )


def _check_pack(dtype: torch.dtype) -> bool:
    x = _tensor(X, dtype)
    weight = _tensor(WEIGHT, dtype)
    return torch.equal(onednn_linear(x, onednn_pack(weight, len(x))), _tensor(PRODUCT, dtype))


def _check_backward() -> bool:
    output = _tensor([0.5, 0.25, 0], torch.float32)
    for backward, expected in ((sigmoid_backward, [0.5, 0.75, 0]), (tanh_backward, [1.5, 3.75, 8])):
        grad = _tensor([2, 4, 8], torch.float32)
        if backward(grad, output, grad_input=grad) is not grad:  # in place
            return False
        if not torch.equal(grad, _tensor(expected, torch.float32)):
            return False
    return True
