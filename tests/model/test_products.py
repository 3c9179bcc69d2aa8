"""Products by oneDNN are the products that torch makes, gradients included."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from nmt.model import products
from nmt.model.products import Recurrence, linear, use_linear


def with_gradients(make: object, *leaves: Tensor) -> list[Tensor]:
    leaves = tuple(leaf.detach().clone().requires_grad_() for leaf in leaves)
    found = make(*leaves)  # type: ignore[operator]
    torch.manual_seed(5)
    return [found.detach(), *torch.autograd.grad(found, leaves, torch.randn_like(found))]


@pytest.mark.parametrize("shape", [(7, 12), (3, 5, 12), (1, 12), (2, 0, 12)])
@pytest.mark.parametrize("height", [1, 9])
def test_linear_is_linear(shape: tuple[int, ...], height: int) -> None:
    torch.manual_seed(1)
    for bias in ([torch.randn(height)], []):
        leaves = torch.randn(shape), torch.randn(height, 12), *bias
        for ours, theirs in zip(
            with_gradients(linear, *leaves), with_gradients(functional.linear, *leaves), strict=True
        ):
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_parts_of_matrices_and_turned_ones() -> None:
    torch.manual_seed(1)
    wide, tall = torch.randn(6, 40), torch.randn(30, 8)
    for x, weight in ((wide[:, 3:11], torch.randn(5, 8)), (torch.randn(4, 30), tall.t()), (wide[::2, ::5], tall[2:9])):
        torch.testing.assert_close(linear(x, weight), functional.linear(x, weight), rtol=1e-4, atol=1e-5)


def test_it_is_used_where_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    if products._MULTIPLY is None:
        pytest.skip("this torch has no oneDNN")
    called = []
    monkeypatch.setattr(products, "_product", lambda *given: called.append(given) or functional.linear(*given))
    model = nn.Sequential(nn.Linear(4, 3), nn.Tanh())
    use_linear(model)
    model(torch.randn(2, 4))
    assert len(called) == 1
    with torch.autocast("cpu", torch.bfloat16):
        assert model(torch.randn(2, 4)).dtype == torch.bfloat16
    model.double()(torch.randn(2, 4, dtype=torch.float64))
    assert len(called) == 1
    assert set(model.state_dict()) == {"0.weight", "0.bias"}


def test_without_onednn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "_MULTIPLY", None)
    x, weight = torch.randn(3, 4), torch.randn(2, 4)
    assert torch.equal(linear(x, weight), functional.linear(x, weight))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_recurrence_is_its_loop(dtype: torch.dtype) -> None:
    def loop(inputs: Tensor, weight: Tensor, x: Tensor) -> Tensor:
        for step in range(inputs.shape[1]):
            x = torch.tanh(inputs[:, step] + x @ weight.t())
        return x

    def ours(inputs: Tensor, weight: Tensor, x: Tensor) -> Tensor:
        recurrence = Recurrence(inputs, weight)
        for step in range(inputs.shape[1]):
            x = torch.tanh(recurrence.gates(step, x))
        return x

    torch.manual_seed(2)
    leaves = torch.randn(3, 6, 5, dtype=dtype), torch.randn(5, 5, dtype=dtype), torch.randn(3, 5, dtype=dtype)
    for mine, theirs in zip(with_gradients(ours, *leaves), with_gradients(loop, *leaves), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)
    with torch.no_grad():
        torch.testing.assert_close(ours(*leaves), loop(*leaves), rtol=1e-4, atol=1e-5)
