"""The chunked loss equals torch's cross-entropy of all logits."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from nmt.kernels import output_loss as module
from nmt.kernels.output_loss import output_loss


def all_real(pieces: Tensor) -> Tensor:
    return torch.ones_like(pieces, dtype=torch.bool)


@pytest.mark.parametrize("rows", [1, 4, 100])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize(
    ("bias", "frozen"), [(True, []), (False, []), (True, ["weight"]), (True, ["bias"]), (True, ["weight", "bias"])]
)
def test_loss_and_gradients_of_real_positions(
    rows: int, smoothing: float, bias: bool, frozen: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(1)
    layer = nn.Linear(5, 11, bias=bias).double()
    monkeypatch.setattr(module, "CHUNK", rows * 11)
    for name in frozen:
        getattr(layer, name).requires_grad_(False)
    features = torch.randn(4, 3, 5, dtype=torch.float64, requires_grad=True)
    pieces = torch.randint(0, 11, (4, 3))
    mask = torch.tensor([[1, 1, 1], [1, 0, 0], [1, 1, 1], [1, 1, 0]]).bool()
    leaves = [features, *(weight for weight in layer.parameters() if weight.requires_grad)]
    loss = output_loss(layer, features, pieces, mask, smoothing=smoothing)
    expected = functional.cross_entropy(layer(features[mask]), pieces[mask], label_smoothing=smoothing)
    torch.testing.assert_close(
        [loss, *torch.autograd.grad(3 * loss, leaves)], [expected, *torch.autograd.grad(3 * expected, leaves)]
    )


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4])
def test_logits_of_any_size(scale: float) -> None:
    """Compared with float64: pieces of probability 0 and 1 keep their loss."""
    torch.manual_seed(1)
    layer, features, pieces = nn.Linear(5, 11), scale * torch.randn(9, 5), torch.randint(0, 11, (9,))
    loss = output_loss(layer, features, pieces, all_real(pieces))
    exact = functional.cross_entropy(layer.double()(features.double()), pieces)
    assert exact.isfinite()
    torch.testing.assert_close(loss.double(), exact, rtol=1e-5, atol=1e-6)


def test_bfloat16_features_have_a_float32_loss() -> None:
    torch.manual_seed(1)
    layer, pieces = nn.Linear(8, 30), torch.randint(0, 30, (12,))
    features = torch.randn(12, 8, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        loss = output_loss(layer, features.bfloat16(), pieces, all_real(pieces))
    assert loss.dtype == torch.float32
    loss.backward()
    assert layer.weight.grad is not None and layer.weight.grad.dtype == torch.float32
    torch.testing.assert_close(loss, functional.cross_entropy(layer(features), pieces), rtol=0.02, atol=0.02)
