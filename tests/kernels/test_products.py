"""Products by oneDNN equal torch's own, gradients included."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from kernels.gradients import Function, assert_equal, with_gradients
from torch import Tensor, nn
from torch.nn import functional

from nmt.kernels import operators, products
from nmt.kernels.products import linear, multiply, pack_weight, use_fast_linear, weight_grad


def single(layer: Callable[..., Tensor]) -> Function:
    """Return the layer as a function with one output."""
    return lambda *leaves: (layer(*leaves),)


def only_float32(dtype: torch.dtype) -> bool:
    """Return what ``can_multiply`` returns on a processor without bfloat16 instructions."""
    return dtype == torch.float32


@pytest.fixture
def onednn(fast_paths: None) -> None:
    """Skip a test that needs oneDNN if this torch does not have it."""
    if not operators.can_multiply(torch.float32):
        pytest.skip("this torch has no oneDNN")


@pytest.mark.parametrize("shape", [(7, 12), (3, 5, 12), (1, 12), (2, 0, 12)])
@pytest.mark.parametrize("height", [1, 9])
def test_linear_equals_torch(shape: tuple[int, ...], height: int) -> None:
    torch.manual_seed(1)
    for bias in ([torch.randn(height)], []):
        assert_equal(single(linear), single(functional.linear), torch.randn(shape), torch.randn(height, 12), *bias)


def test_slices_and_transposed_matrices() -> None:
    torch.manual_seed(1)
    wide, tall = torch.randn(6, 40), torch.randn(30, 8)
    for x, weight in ((wide[:, 3:11], torch.randn(5, 8)), (torch.randn(4, 30), tall.t()), (wide[::2, ::5], tall[2:9])):
        torch.testing.assert_close(linear(x, weight), functional.linear(x, weight), rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("onednn")
def test_linear_layers_use_onednn_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    monkeypatch.setattr(products, "_product", lambda *args: calls.append(args) or functional.linear(*args))
    model = nn.Sequential(nn.Linear(4, 3), nn.Tanh())
    use_fast_linear(model)
    model(torch.randn(2, 4))
    assert len(calls) == 1
    model.double()(torch.randn(2, 4, dtype=torch.float64))
    assert len(calls) == 1
    assert set(model.state_dict()) == {"0.weight", "0.bias"}


@pytest.mark.usefixtures("onednn")
def test_small_products_do_not_use_onednn(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    monkeypatch.setattr(products, "_product", lambda *args: calls.append(args) or functional.linear(*args))
    monkeypatch.setattr(products, "LEAST_MULTIPLICATIONS", 2 * 3 * 4 * 5)
    for rows, expected in ((3, 0), (4, 1)):
        linear(torch.randn(2, rows, 3), torch.randn(5, 3))
        assert len(calls) == expected


@pytest.mark.parametrize("emulated", [False, True])
@pytest.mark.parametrize("shape", [(7, 12), (3, 9, 12), (2, 0, 12)])
def test_linear_follows_autocast(shape: tuple[int, ...], emulated: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gradients too, which are computed after autocast has ended. ``emulated``: the processor has no bfloat16."""
    if emulated:
        monkeypatch.setattr(operators, "can_multiply", only_float32)

    def mixed(layer: Callable[..., Tensor]) -> Function:
        def run(*leaves: Tensor) -> tuple[Tensor]:
            with torch.autocast("cpu", torch.bfloat16):
                return (layer(*leaves),)

        return run

    torch.manual_seed(1)
    leaves = torch.randn(shape), torch.randn(9, 12), torch.randn(9)
    for dtypes in ([torch.float32] * 3, [torch.bfloat16, torch.float32, torch.float32]):
        converted = [leaf.to(dtype) for leaf, dtype in zip(leaves, dtypes, strict=True)]
        results, expected = (with_gradients(mixed(layer), *converted) for layer in (linear, functional.linear))
        for result, expected_result in zip(results, expected, strict=True):
            assert result.dtype == expected_result.dtype
            torch.testing.assert_close(result, expected_result, rtol=0.02, atol=0.02)
    double = torch.randn(3, 12, dtype=torch.float64)
    with torch.autocast("cpu", torch.bfloat16):
        assert linear(double, double).dtype == torch.float64


def test_without_onednn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operators, "can_multiply", lambda dtype: False)
    x, weight = torch.randn(3, 4), torch.randn(2, 4)
    assert torch.equal(linear(x, weight), functional.linear(x, weight))


@pytest.mark.parametrize(("width", "height"), [(3, 7), (7, 3), (5, 5), (4, 1)])
def test_weight_gradient(width: int, height: int) -> None:
    torch.manual_seed(1)
    x, grad_output = torch.randn(6, width), torch.randn(6, height)
    torch.testing.assert_close(weight_grad(x, grad_output), grad_output.t() @ x, rtol=1e-4, atol=1e-5)
    rough = weight_grad(x.bfloat16(), grad_output.bfloat16())
    torch.testing.assert_close(rough.float(), grad_output.t() @ x, rtol=0.05, atol=0.05)


def test_grid_is_coarse_and_adds_few_rows() -> None:
    sizes = {rows: products.grid_size(rows) for rows in range(1, 5000)}
    assert all(rows <= size <= max(rows + 7, rows * 17 / 16) for rows, size in sizes.items())
    assert all(products.grid_size(size) == size for size in sizes.values())
    assert len(set(sizes.values())) < 110


@pytest.mark.usefixtures("onednn")
def test_many_lengths_need_few_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also for gradients. The padding changes no result."""
    shapes, onednn_linear = set(), operators.onednn_linear

    def recorded(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        shapes.add((x.shape, weight.shape))
        return onednn_linear(x, weight, bias)

    monkeypatch.setattr(operators, "onednn_linear", recorded)
    torch.manual_seed(1)
    weight = torch.randn(5, 6)
    for rows in range(100, 200):
        x = torch.randn(rows, 6)
        assert_equal(single(linear), single(functional.linear), x, weight)
        with torch.autocast("cpu", torch.bfloat16):
            torch.testing.assert_close(linear(x, weight).float(), functional.linear(x, weight).float())
    assert len(shapes) <= 3 * len({products.grid_size(rows) for rows in range(100, 200)})


@pytest.mark.usefixtures("onednn")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(1,), (4,), (50,), (9, 1), (5, 9)])
def test_packed_weight_has_the_same_product(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    if not operators.can_multiply(dtype):
        pytest.skip("this processor does not multiply bfloat16")
    torch.manual_seed(1)
    weight, x = torch.randn(40, 24).to(dtype), torch.randn(*shape, 24).to(dtype)
    rtol, atol = (1e-4, 1e-5) if dtype == torch.float32 else (0.02, 0.02)
    with torch.no_grad():
        for rows in (x.shape[:-1].numel(), 7):
            product = multiply(x, pack_weight(weight, rows))
            torch.testing.assert_close(product, functional.linear(x, weight), rtol=rtol, atol=atol)


def test_float64_weight_is_not_packed() -> None:
    weight = torch.randn(4, 3, dtype=torch.float64)
    assert pack_weight(weight, 5) is weight
