"""bfloat16 in training."""

from __future__ import annotations

import pytest
import torch

from nmt.training import precision
from nmt.training.precision import Bfloat16, slowdown


def test_forwards_multiply_in_bfloat16_and_backwards_as_they_find_it() -> None:
    weight = torch.randn(3, 3, requires_grad=True)
    with Bfloat16(torch.device("cpu")).forward_context():
        product = weight @ weight
    assert product.dtype == torch.bfloat16
    assert not torch.is_autocast_enabled("cpu")
    product.sum().backward()
    assert weight.grad is not None and weight.grad.dtype == torch.float32


def test_the_slowdown_is_that_of_the_best_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = iter([9.0, 3.0, 5.0, 4.0, 7.0, 2.0, 1.5, 8.0, 2.0, 2.0])
    asked = []
    monkeypatch.setattr(precision, "_seconds", lambda x: asked.append(x.dtype) or next(taken))
    assert slowdown() == 3.0 / 1.5
    assert asked == [torch.bfloat16] * 5 + [torch.float32] * 5
