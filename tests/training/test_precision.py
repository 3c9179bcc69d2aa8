"""Training in bfloat16, and the warning where it is slow."""

from __future__ import annotations

import pytest
import torch

from nmt.training import fit as precision
from nmt.training.fit import Bfloat16, slowdown


def test_forward_products_are_bfloat16_and_gradients_float32() -> None:
    weight = torch.randn(3, 3, requires_grad=True)
    with Bfloat16(torch.device("cpu")).forward_context():
        product = weight @ weight
    assert product.dtype == torch.bfloat16
    assert not torch.is_autocast_enabled("cpu")
    product.sum().backward()
    assert weight.grad is not None and weight.grad.dtype == torch.float32


def test_slowdown_compares_the_fastest_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter([9.0, 3.0, 5.0, 4.0, 7.0, 2.0, 1.5, 8.0, 2.0, 2.0])
    dtypes = []
    monkeypatch.setattr(precision, "_seconds", lambda x: dtypes.append(x.dtype) or next(seconds))
    assert slowdown() == 3.0 / 1.5
    assert dtypes == [torch.bfloat16] * 5 + [torch.float32] * 5
