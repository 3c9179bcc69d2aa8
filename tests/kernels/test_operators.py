"""Private torch operators that are missing or have changed: the plain path computes the same results."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from builders import loss_curve, random_model, tiny_config
from torch import Tensor
from torch.nn import functional

from nmt import kernels
from nmt.kernels import operators
from nmt.kernels.products import linear, pack_weight

CONFIG = tiny_config({"_target_": "nmt.attention.LuongAttention", "score": "concat"}, decoder={"input_feeding": True})


def two_arguments(x: Tensor, weight: Tensor) -> Tensor:
    return functional.linear(x, weight)


def wrong_result(x: Tensor, weight: Tensor, bias: Tensor | None, *rest: object) -> Tensor:
    return functional.linear(x, weight, bias) + 1


def warning(x: Tensor, weight: Tensor, bias: Tensor | None, *rest: object) -> Tensor:
    warnings.warn("this operator is deprecated", stacklevel=2)
    return functional.linear(x, weight, bias)


def replace_mkldnn(monkeypatch: pytest.MonkeyPatch, **changed: Callable[..., Any] | None) -> None:
    """Replace torch.ops.mkldnn by the operators that the fast paths use, without those that are None in ``changed``."""
    names = ("_linear_pointwise", "_reorder_linear_weight", "_is_mkldnn_bf16_supported")
    current = {name: getattr(torch.ops.mkldnn, name) for name in names if hasattr(torch.ops.mkldnn, name)} | changed
    kept = {name: operator for name, operator in current.items() if operator is not None}
    monkeypatch.setattr(torch.ops, "mkldnn", SimpleNamespace(**kept))


def assert_same_results() -> None:
    torch.manual_seed(1)
    x, weight, bias = torch.randn(9, 12), torch.randn(7, 12), torch.randn(7)
    torch.testing.assert_close(linear(x, weight, bias), functional.linear(x, weight, bias), rtol=1e-4, atol=1e-5)
    losses = loss_curve(random_model(CONFIG, vocabulary=30), updates=12)
    with kernels.disabled():
        assert losses == pytest.approx(loss_curve(random_model(CONFIG, vocabulary=30), updates=12), rel=1e-4)


@pytest.mark.thorough
@pytest.mark.usefixtures("unchecked_operators")
@pytest.mark.parametrize("changed", [None, two_arguments, wrong_result, warning])
def test_changed_product(changed: Callable[..., Tensor] | None, monkeypatch: pytest.MonkeyPatch) -> None:
    replace_mkldnn(monkeypatch, _linear_pointwise=changed)
    for dtype in (torch.float32, torch.bfloat16):
        assert not operators.can_multiply(dtype)
        assert not operators.can_pack(dtype)
    assert_same_results()


@pytest.mark.usefixtures("unchecked_operators")
def test_missing_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.ops, "mkldnn", SimpleNamespace())
    assert not operators.can_multiply(torch.float32)
    assert_same_results()


@pytest.mark.thorough
@pytest.mark.usefixtures("unchecked_operators")
@pytest.mark.parametrize("changed", [None, lambda weight: weight, lambda weight, rows: weight + 1])
def test_changed_packing(changed: Callable[..., Tensor] | None, monkeypatch: pytest.MonkeyPatch) -> None:
    replace_mkldnn(monkeypatch, _reorder_linear_weight=changed)
    assert not operators.can_pack(torch.float32)
    weight = torch.randn(5, 4)
    assert pack_weight(weight, 3) is weight
    assert_same_results()


@pytest.mark.usefixtures("unchecked_operators")
@pytest.mark.parametrize("changed", [None, lambda: True, lambda: False])
def test_unknown_bfloat16_support(changed: Callable[[], bool] | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if changed is not None and changed() and not operators.can_multiply(torch.bfloat16):
        pytest.skip("this processor does not multiply bfloat16")
    operators.can_multiply.cache_clear()
    replace_mkldnn(monkeypatch, _is_mkldnn_bf16_supported=changed)
    assert operators.can_multiply(torch.bfloat16) is bool(changed and changed())
    assert_same_results()


@pytest.mark.thorough
@pytest.mark.usefixtures("unchecked_operators")
@pytest.mark.parametrize("name", ["sigmoid_backward", "tanh_backward"])
@pytest.mark.parametrize(
    "changed",
    [
        SimpleNamespace(),
        SimpleNamespace(grad_input=lambda grad, output: grad * output),
        SimpleNamespace(grad_input=lambda grad, output, grad_input: grad_input),
    ],
    ids=["missing", "other signature", "other result"],
)
def test_changed_gradients(name: str, changed: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.ops.aten, name, changed)
    assert not operators.can_differentiate()
    assert_same_results()


@pytest.mark.usefixtures("unchecked_operators")
def test_checks_inside_a_meta_device_and_autocast() -> None:
    expected = operators.can_multiply(torch.float32), operators.can_differentiate()
    operators.can_multiply.cache_clear()
    operators.can_differentiate.cache_clear()
    with torch.device("meta"), torch.autocast("cpu", torch.bfloat16):
        assert (operators.can_multiply(torch.float32), operators.can_differentiate()) == expected
