"""The steps of a recurrence, done the quick way, are those of its equations."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from nmt.kernels import products, recurrence
from nmt.kernels.recurrence import Recurrence, lstm_cell

DTYPES = [torch.float32, torch.float64]
Made = Callable[..., tuple[Tensor, ...]]


def with_gradients(make: Made, *leaves: Tensor) -> list[Tensor]:
    """All results, and the gradient of each leaf where every result matters."""
    leaves = tuple(leaf.detach().clone().requires_grad_() for leaf in leaves)
    found = make(*leaves)
    torch.manual_seed(5)
    total = sum((one * torch.randn_like(one)).sum() for one in found)
    assert isinstance(total, Tensor)
    return [*(one.detach() for one in found), *torch.autograd.grad(total, leaves)]


def assert_equal(mine: Made, theirs: Made, *leaves: Tensor) -> None:
    for one, other in zip(with_gradients(mine, *leaves), with_gradients(theirs, *leaves), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    with torch.no_grad():
        for one, other in zip(mine(*leaves), theirs(*leaves), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(3,), (3, 1), (9, 1), (3, 2, 3)])
def test_a_recurrence_is_its_loop(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    torch.manual_seed(2)
    assert_equal(ours, loop, *(torch.randn(size, dtype=dtype) for size in ((6, *shape, 5), (5, 5), (*shape, 5))))


def loop(inputs: Tensor, weight: Tensor, x: Tensor) -> tuple[Tensor, ...]:
    steps = []
    for each in inputs:
        steps.append(x := torch.tanh(each + x @ weight.t()))
    return tuple(steps)


def ours(inputs: Tensor, weight: Tensor, x: Tensor) -> tuple[Tensor, ...]:
    gates, steps = Recurrence(inputs, weight), []
    for step in range(len(inputs)):
        steps.append(x := torch.tanh(gates(step, x)))
    return tuple(steps)


@pytest.mark.parametrize("emulated", [False, True])
@pytest.mark.parametrize("inputs", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(3,), (9, 1)])
def test_under_autocast_only_products_are_rough(
    shape: tuple[int, ...], inputs: torch.dtype, emulated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gates and what comes of them stay float32, and so do gradients, which are found after autocast has ended."""
    if emulated:
        monkeypatch.setattr(products, "_DTYPES", (torch.float32,))

    def mixed(*given: Tensor) -> tuple[Tensor, ...]:
        with torch.autocast("cpu", torch.bfloat16):
            steps = ours(*given)
        assert {step.dtype for step in steps} == {torch.float32}
        return steps

    torch.manual_seed(2)
    leaves = [torch.randn(size) / 2 for size in ((6, *shape, 5), (5, 5), (*shape, 5))]
    leaves[0] = leaves[0].to(inputs)
    for rough, exact in zip(with_gradients(mixed, *leaves), with_gradients(loop, *leaves), strict=True):
        assert rough.dtype == exact.dtype
        torch.testing.assert_close(rough, exact, rtol=0.05, atol=0.05)


@pytest.mark.parametrize("dtype", DTYPES)
def test_several_weights_meet_each_its_own(dtype: torch.dtype) -> None:
    def loop(inputs: Tensor, first: Tensor, second: Tensor, x: Tensor) -> tuple[Tensor, ...]:
        for each in inputs:
            x = torch.tanh(each + x @ first.t() + x[:, :2] @ second.t())
        return (x,)

    def ours(inputs: Tensor, first: Tensor, second: Tensor, x: Tensor) -> tuple[Tensor, ...]:
        gates = Recurrence(inputs, first, second)
        for step in range(len(inputs)):
            x = torch.tanh(gates(step, x, x[:, :2]))
        return (x,)

    torch.manual_seed(2)
    assert_equal(ours, loop, *(torch.randn(shape, dtype=dtype) for shape in ((6, 3, 5), (5, 5), (5, 2), (3, 5))))


def test_a_bias_may_be_all_there_is_to_add() -> None:
    def loop(bias: Tensor, weight: Tensor, x: Tensor) -> tuple[Tensor, ...]:
        return (torch.tanh((x @ weight.t() + bias) @ weight.t() + bias),)

    def ours(bias: Tensor, weight: Tensor, x: Tensor) -> tuple[Tensor, ...]:
        product = Recurrence(bias.expand(2, 3, -1), weight)
        return (torch.tanh(product(1, product(0, x))),)

    torch.manual_seed(2)
    assert_equal(ours, loop, torch.randn(4), torch.randn(4, 4), torch.randn(3, 4))


def test_the_weight_s_gradient_is_one_product(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    plain = recurrence.by_weight
    monkeypatch.setattr(recurrence, "by_weight", lambda *given: found.append(given[0].shape) or plain(*given))
    weight = torch.randn(7, 4, requires_grad=True)
    product = Recurrence(torch.randn(9, 3, 7), weight)
    sum(product(step, torch.randn(3, 4)).sum() for step in range(9)).backward()  # type: ignore[union-attr]
    assert found == [(27, 4)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(3,), (2, 4)])
def test_the_cell_is_the_one_of_the_equations(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    def equations(gates: Tensor, cell: Tensor) -> tuple[Tensor, ...]:
        i, f, g, o = gates.split(5, dim=-1)
        after = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(after), after

    torch.manual_seed(3)
    gates, cell = 3 * torch.randn(*shape, 20, dtype=dtype), torch.randn(*shape, 5, dtype=dtype)
    assert_equal(lstm_cell, equations, gates, cell)
    before = gates.clone(), cell.clone()
    lstm_cell(gates, cell)
    assert torch.equal(gates, before[0]) and torch.equal(cell, before[1])


def test_the_cell_is_that_of_torch() -> None:
    torch.manual_seed(4)
    theirs = nn.LSTMCell(6, 5).double()
    x, hidden, cell = torch.randn(3, 6).double(), torch.randn(3, 5).double(), torch.randn(3, 5).double()
    gates = x @ theirs.weight_ih.t() + theirs.bias_ih + hidden @ theirs.weight_hh.t() + theirs.bias_hh
    for mine, other in zip(lstm_cell(gates, cell), theirs(x, (hidden, cell)), strict=True):
        torch.testing.assert_close(mine, other)


def test_gradients_of_the_cell_by_differences() -> None:
    torch.manual_seed(5)
    leaves = (torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in ((2, 12), (2, 3)))
    assert torch.autograd.gradcheck(lstm_cell, tuple(leaves))


@pytest.mark.parametrize("part", [0, 1])
def test_one_of_the_cell_s_results_may_be_left_unused(part: int) -> None:
    gates, cell = torch.randn(2, 12, requires_grad=True), torch.randn(2, 3, requires_grad=True)
    lstm_cell(gates, cell)[part].sum().backward()
    assert gates.grad is not None and cell.grad is not None


def test_mixed_precision_goes_the_plain_way() -> None:
    gates, cell = torch.randn(2, 12), torch.randn(2, 3)
    for mine, exact in zip(lstm_cell(gates.bfloat16(), cell), lstm_cell(gates, cell), strict=True):
        torch.testing.assert_close(mine.float(), exact, rtol=0.05, atol=0.05)
