"""Products by oneDNN are the products that torch makes, gradients included."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from nmt.kernels import products
from nmt.kernels.products import by_weight, linear, multiply, packed, use_linear


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
    model.double()(torch.randn(2, 4, dtype=torch.float64))
    assert len(called) == 1
    assert set(model.state_dict()) == {"0.weight", "0.bias"}


@pytest.mark.parametrize("emulated", [False, True])
@pytest.mark.parametrize("shape", [(7, 12), (3, 9, 12), (2, 0, 12)])
def test_autocast_is_autocast(shape: tuple[int, ...], emulated: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also gradients, which are found after autocast has ended; and where the processor knows no bfloat16."""
    if emulated:
        monkeypatch.setattr(products, "_DTYPES", (torch.float32,))

    def mixed(layer: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def run(*leaves: Tensor) -> Tensor:
            with torch.autocast("cpu", torch.bfloat16):
                return layer(*leaves)

        return run

    torch.manual_seed(1)
    leaves = torch.randn(shape), torch.randn(9, 12), torch.randn(9)
    for dtypes in ([torch.float32] * 3, [torch.bfloat16, torch.float32, torch.float32]):
        given = [leaf.to(dtype) for leaf, dtype in zip(leaves, dtypes, strict=True)]
        mine, theirs = (with_gradients(mixed(layer), *given) for layer in (linear, functional.linear))
        for ours, other in zip(mine, theirs, strict=True):
            assert ours.dtype == other.dtype
            torch.testing.assert_close(ours, other, rtol=0.02, atol=0.02)
    wide = torch.randn(3, 12, dtype=torch.float64)
    with torch.autocast("cpu", torch.bfloat16):
        assert linear(wide, wide).dtype == torch.float64


def test_without_onednn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "_MULTIPLY", None)
    x, weight = torch.randn(3, 4), torch.randn(2, 4)
    assert torch.equal(linear(x, weight), functional.linear(x, weight))


@pytest.mark.parametrize(("width", "height"), [(3, 7), (7, 3), (5, 5), (4, 1)])
def test_gradients_of_weights(width: int, height: int) -> None:
    torch.manual_seed(1)
    x, slope = torch.randn(6, width), torch.randn(6, height)
    torch.testing.assert_close(by_weight(x, slope), slope.t() @ x, rtol=1e-4, atol=1e-5)
    rough = by_weight(x.bfloat16(), slope.bfloat16())
    torch.testing.assert_close(rough.float(), slope.t() @ x, rtol=0.05, atol=0.05)


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
        with torch.autocast("cpu", torch.bfloat16):
            torch.testing.assert_close(linear(x, weight).float(), functional.linear(x, weight).float())
    assert len(shapes) <= 3 * len({products.grid(rows) for rows in range(100, 200)})


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(1,), (4,), (50,), (9, 1), (5, 9)])
def test_a_packed_weight_multiplies_as_before(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    if products._MULTIPLY is None or dtype not in products._DTYPES:
        pytest.skip("this torch or processor has no such products")
    torch.manual_seed(1)
    weight, x = torch.randn(40, 24).to(dtype), torch.randn(*shape, 24).to(dtype)
    rtol, atol = (1e-4, 1e-5) if dtype == torch.float32 else (0.02, 0.02)
    with torch.no_grad():
        for laid_out_for in (x.shape[:-1].numel(), 7):
            found = multiply(x, packed(weight, laid_out_for))
            torch.testing.assert_close(found, functional.linear(x, weight), rtol=rtol, atol=atol)


def test_what_onednn_does_not_multiply_is_not_packed() -> None:
    weight = torch.randn(4, 3, dtype=torch.float64)
    assert packed(weight, 5) is weight
