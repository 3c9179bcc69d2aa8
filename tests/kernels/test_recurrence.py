"""The fast recurrence and the cells of LSTM and GRU equal their equations, gradients included."""

from __future__ import annotations

import pytest
import torch
from kernels.gradients import assert_equal, with_gradients
from torch import Tensor

from nmt.kernels import operators, recurrence
from nmt.kernels.recurrence import Recurrence, gru_cell, lstm_cell

DTYPES = [torch.float32, torch.float64]


def naive_loop(inputs: Tensor, weight: Tensor, x: Tensor) -> tuple[Tensor, ...]:
    steps = []
    for step_input in inputs:
        steps.append(x := torch.tanh(step_input + x @ weight.t()))
    return tuple(steps)


def fast_loop(inputs: Tensor, weight: Tensor, x: Tensor) -> tuple[Tensor, ...]:
    gates, steps = Recurrence(inputs, weight), []
    for step in range(len(inputs)):
        steps.append(x := torch.tanh(gates(step, x)))
    return tuple(steps)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(3,), (3, 1), (9, 1), (3, 2, 3)])
def test_recurrence_equals_naive_loop(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    torch.manual_seed(2)
    leaves = (torch.randn(size, dtype=dtype) for size in ((6, *shape, 5), (5, 5), (*shape, 5)))
    assert_equal(fast_loop, naive_loop, *leaves)


@pytest.mark.parametrize("emulated", [False, True])
@pytest.mark.parametrize("inputs", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(3,), (9, 1)])
def test_under_autocast_only_products_are_bfloat16(
    shape: tuple[int, ...], inputs: torch.dtype, emulated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sums stay float32, and so do gradients, which are computed after autocast has ended."""
    if emulated:
        monkeypatch.setattr(operators, "can_multiply", lambda dtype: dtype == torch.float32)

    def mixed(*leaves: Tensor) -> tuple[Tensor, ...]:
        with torch.autocast("cpu", torch.bfloat16):
            steps = fast_loop(*leaves)
        assert {step.dtype for step in steps} == {torch.float32}
        return steps

    torch.manual_seed(2)
    leaves = [torch.randn(size) / 2 for size in ((6, *shape, 5), (5, 5), (*shape, 5))]
    leaves[0] = leaves[0].to(inputs)
    for rough, exact in zip(with_gradients(mixed, *leaves), with_gradients(naive_loop, *leaves), strict=True):
        assert rough.dtype == exact.dtype
        torch.testing.assert_close(rough, exact, rtol=0.05, atol=0.05)


@pytest.mark.parametrize("dtype", DTYPES)
def test_several_weights(dtype: torch.dtype) -> None:
    def naive(inputs: Tensor, first: Tensor, second: Tensor, x: Tensor) -> tuple[Tensor, ...]:
        for step_input in inputs:
            x = torch.tanh(step_input + x @ first.t() + x[:, :2] @ second.t())
        return (x,)

    def fast(inputs: Tensor, first: Tensor, second: Tensor, x: Tensor) -> tuple[Tensor, ...]:
        gates = Recurrence(inputs, first, second)
        for step in range(len(inputs)):
            x = torch.tanh(gates(step, x, x[:, :2]))
        return (x,)

    torch.manual_seed(2)
    assert_equal(fast, naive, *(torch.randn(shape, dtype=dtype) for shape in ((6, 3, 5), (5, 5), (5, 2), (3, 5))))


def test_inputs_may_be_an_expanded_bias() -> None:
    def naive(bias: Tensor, weight: Tensor, x: Tensor) -> tuple[Tensor, ...]:
        return (torch.tanh((x @ weight.t() + bias) @ weight.t() + bias),)

    def fast(bias: Tensor, weight: Tensor, x: Tensor) -> tuple[Tensor, ...]:
        product = Recurrence(bias.expand(2, 3, -1), weight)
        return (torch.tanh(product(1, product(0, x))),)

    torch.manual_seed(2)
    assert_equal(fast, naive, torch.randn(4), torch.randn(4, 4), torch.randn(3, 4))


@pytest.mark.usefixtures("fast_paths")
def test_weight_gradient_is_one_product(monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = []
    original = recurrence.weight_grad
    monkeypatch.setattr(recurrence, "weight_grad", lambda x, grad: shapes.append(x.shape) or original(x, grad))
    weight = torch.randn(7, 4, requires_grad=True)
    product = Recurrence(torch.randn(9, 3, 7), weight)
    sum(product(step, torch.randn(3, 4)).sum() for step in range(9)).backward()  # type: ignore[union-attr]
    assert shapes == [(27, 4)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(3,), (2, 4)])
def test_cell_equals_equations(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    def equations(gates: Tensor, cell: Tensor) -> tuple[Tensor, ...]:
        i, f, g, o = gates.split(5, dim=-1)
        next_cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(next_cell), next_cell

    torch.manual_seed(3)
    gates, cell = 3 * torch.randn(*shape, 20, dtype=dtype), torch.randn(*shape, 5, dtype=dtype)
    assert_equal(lstm_cell, equations, gates, cell)
    copies = gates.clone(), cell.clone()
    lstm_cell(gates, cell)
    assert torch.equal(gates, copies[0]) and torch.equal(cell, copies[1])


def gru_equations(from_input: Tensor, from_hidden: Tensor, hidden: Tensor) -> tuple[Tensor, ...]:
    """Return the next state by Cho et al. (2014), eq. 5 to 8, number by number; r multiplies U h + b."""
    states = []
    for (x_r, x_z, x_c), (h_r, h_z, h_c), h in zip(
        zip(*from_input.flatten(0, -2).split(5, dim=1), strict=True),
        zip(*from_hidden.flatten(0, -2).split(5, dim=1), strict=True),
        hidden.flatten(0, -2),
        strict=True,
    ):
        r = 1 / (1 + torch.exp(-x_r - h_r))
        z = 1 / (1 + torch.exp(-x_z - h_z))
        states.append(z * h + (1 - z) * torch.tanh(x_c + r * h_c))
    return (torch.stack(states).reshape(hidden.shape),)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(3,), (2, 4)])
def test_gru_cell_equals_equations(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    torch.manual_seed(3)
    products = (3 * torch.randn(*shape, 15, dtype=dtype) for _ in range(2))
    hidden = torch.rand(*shape, 5, dtype=dtype)
    assert_equal(lambda *parts: (gru_cell(*parts),), gru_equations, *products, hidden)


@pytest.mark.parametrize("used", [0, 1])
def test_one_output_of_the_cell_may_be_unused(used: int) -> None:
    gates, cell = torch.randn(2, 12, requires_grad=True), torch.randn(2, 3, requires_grad=True)
    lstm_cell(gates, cell)[used].sum().backward()
    assert gates.grad is not None and cell.grad is not None


def test_cell_accepts_mixed_dtypes() -> None:
    gates, cell = torch.randn(2, 12), torch.randn(2, 3)
    for result, exact in zip(lstm_cell(gates.bfloat16(), cell), lstm_cell(gates, cell), strict=True):
        torch.testing.assert_close(result.float(), exact, rtol=0.05, atol=0.05)
