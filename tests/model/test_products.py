"""Products by oneDNN are the products that torch makes, gradients included."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from nmt.model import products
from nmt.model.products import by_weight, linear, packed, use_linear


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


@pytest.mark.parametrize(("width", "height"), [(3, 7), (7, 3), (5, 5), (4, 1)])
def test_gradients_of_weights(width: int, height: int) -> None:
    torch.manual_seed(1)
    x, slope = torch.randn(6, width), torch.randn(6, height)
    torch.testing.assert_close(by_weight(x, slope), slope.t() @ x, rtol=1e-4, atol=1e-5)


def test_the_grid_is_coarse_and_near() -> None:
    sizes = {rows: products.grid(rows) for rows in range(1, 5000)}
    assert all(rows <= size <= max(rows + 7, rows * 17 / 16) for rows, size in sizes.items())
    assert all(products.grid(size) == size for size in sizes.values())
    assert len(set(sizes.values())) < 110


def test_products_of_many_lengths_are_of_few_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those of gradients; and each is the product of its own rows."""
    if products._MULTIPLY is None:
        pytest.skip("this torch has no oneDNN")
    shapes, multiply = set(), products._MULTIPLY

    def seen(x: Tensor, weight: Tensor, *more: object) -> Tensor:
        shapes.add((x.shape, weight.shape))
        return multiply(x, weight, *more)  # type: ignore[no-any-return]

    monkeypatch.setattr(products, "_MULTIPLY", seen)
    torch.manual_seed(1)
    weight = torch.randn(5, 6)
    for rows in range(100, 200):
        x = torch.randn(rows, 6)
        mine = with_gradients(linear, x, weight)
        for ours, theirs in zip(mine, with_gradients(functional.linear, x, weight), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)
    assert len(shapes) <= 3 * len({products.grid(rows) for rows in range(100, 200)})


@pytest.mark.parametrize("rows", [1, 4, 50])
def test_a_packed_weight_multiplies_as_before(rows: int) -> None:
    torch.manual_seed(1)
    weight, x = torch.randn(40, 24), torch.randn(rows, 24)
    with torch.no_grad():
        for laid_out_for in (rows, 7):
            found = linear(x, packed(weight, laid_out_for))
            torch.testing.assert_close(found, functional.linear(x, weight), rtol=1e-4, atol=1e-5)


def test_what_onednn_does_not_multiply_is_not_packed() -> None:
    weight = torch.randn(4, 3, dtype=torch.float64)
    assert packed(weight, 5) is weight
