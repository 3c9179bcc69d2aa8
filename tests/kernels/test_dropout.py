"""Dropout drops the given share of elements, independently, and keeps the mean."""

from __future__ import annotations

import pytest
import torch

from nmt.kernels.dropout import Dropout, dropout

COUNT = 200_000


@pytest.mark.parametrize("p", [0.1, 0.3, 0.9])
def test_elements_are_dropped_independently_and_keep_their_mean(p: float) -> None:
    """Four neighbours share a draw. Each of the 16 ways to drop them must have its expected frequency."""
    torch.manual_seed(2)
    output = dropout(torch.ones(COUNT // 4, 4), p, training=True)
    assert output.unique().tolist() == pytest.approx([0, 1 / (1 - p)], rel=1e-4)
    dropped = (output == 0).long()
    ways = torch.bincount((dropped * torch.tensor([8, 4, 2, 1])).sum(1), minlength=16)
    for way, count in enumerate(ways.tolist()):
        expected = p ** way.bit_count() * (1 - p) ** (4 - way.bit_count())
        assert abs(count / len(dropped) - expected) < 5 * (expected / len(dropped)) ** 0.5
    second = (dropout(torch.ones(COUNT // 4, 4), p, training=True) == 0).long()
    both = (dropped * second).float().mean().item()
    assert abs(both - p * p) < 5 * p / COUNT**0.5


def test_gradients_pass_through_kept_elements() -> None:
    torch.manual_seed(3)
    x = torch.randn(30, 7, requires_grad=True)
    output = dropout(x, 0.4, training=True)
    output.sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(output, x * x.grad)


def test_nothing_and_everything_dropped() -> None:
    x = torch.randn(5, 3)
    assert dropout(x, 0.0, training=True) is x
    assert dropout(x, 0.7, training=False) is x
    assert torch.equal(dropout(x, 1.0, training=True), torch.zeros(5, 3))
    assert dropout(x[:0], 0.5, training=True).shape == (0, 3)
    assert Dropout(0.5).eval()(x) is x
