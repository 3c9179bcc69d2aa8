"""The loss that never holds all logits is torch's cross-entropy of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from nmt.kernels import output_loss as loss
from nmt.kernels.output_loss import output_loss


def everywhere(pieces: Tensor) -> Tensor:
    return torch.ones_like(pieces, dtype=torch.bool)


@pytest.mark.parametrize("rows", [1, 4, 100])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_loss_and_gradients_of_what_is_real(rows: int, smoothing: float, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(1)
    layer = nn.Linear(5, 11).double()
    monkeypatch.setattr(loss, "CHUNK", rows * 11)
    features = torch.randn(4, 3, 5, dtype=torch.float64, requires_grad=True)
    pieces = torch.randint(0, 11, (4, 3))
    mask = torch.tensor([[1, 1, 1], [1, 0, 0], [1, 1, 1], [1, 1, 0]]).bool()
    leaves = features, *layer.parameters()
    ours = output_loss(layer, features, pieces, mask, smoothing=smoothing)
    theirs = functional.cross_entropy(layer(features[mask]), pieces[mask], label_smoothing=smoothing)
    torch.testing.assert_close(ours, theirs)
    for mine, other in zip(torch.autograd.grad(3 * ours, leaves), torch.autograd.grad(3 * theirs, leaves), strict=True):
        torch.testing.assert_close(mine, other)


def test_without_gradients_only_the_loss_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    products = []
    monkeypatch.setattr(loss, "linear", lambda *given: products.append(given) or functional.linear(*given))
    torch.manual_seed(1)
    layer, features, pieces = nn.Linear(5, 11), torch.randn(9, 5), torch.randint(0, 11, (9,))
    with torch.no_grad():
        found = output_loss(layer, features, pieces, everywhere(pieces), smoothing=0.1)
    torch.testing.assert_close(found, functional.cross_entropy(layer(features), pieces, label_smoothing=0.1))
    assert len(products) == 1


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4])
def test_logits_of_any_size(scale: float) -> None:
    """As in twice the precision: neither a piece of probability 0 nor one of probability 1 is lost."""
    torch.manual_seed(1)
    layer, features, pieces = nn.Linear(5, 11), scale * torch.randn(9, 5), torch.randint(0, 11, (9,))
    found = output_loss(layer, features, pieces, everywhere(pieces))
    exact = functional.cross_entropy(layer.double()(features.double()), pieces)
    assert exact.isfinite()
    torch.testing.assert_close(found.double(), exact, rtol=1e-5, atol=1e-6)


def test_gradcheck(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loss, "CHUNK", 2 * 6)
    pieces = torch.tensor([0, 5, 2, 2, 1])

    def of(features: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        layer = cast(nn.Linear, SimpleNamespace(weight=weight, bias=bias))
        return output_loss(layer, features, pieces, everywhere(pieces), smoothing=0.2)

    leaves = (torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in ((5, 3), (6, 3), (6,)))
    torch.autograd.gradcheck(of, tuple(leaves))


def test_bfloat16_features_keep_a_float32_loss() -> None:
    torch.manual_seed(1)
    layer, pieces = nn.Linear(8, 30), torch.randint(0, 30, (12,))
    features = torch.randn(12, 8, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        rough = output_loss(layer, features.bfloat16(), pieces, everywhere(pieces))
    assert rough.dtype == torch.float32
    rough.backward()
    assert layer.weight.grad is not None and layer.weight.grad.dtype == torch.float32
    torch.testing.assert_close(rough, functional.cross_entropy(layer(features), pieces), rtol=0.02, atol=0.02)
