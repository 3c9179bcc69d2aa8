"""The recurrent unit that reads C h equals a loop over positions with one matrix C per sentence."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from nmt.model import CovarianceGRUEncoder, covariance_encoder

LENGTHS = (9, 1, 6)
SETTINGS = pytest.mark.parametrize("settings", [{"layers": 2}, {"scaled": False}], ids=lambda settings: str(settings))


def build(**settings: bool | int) -> CovarianceGRUEncoder:
    torch.manual_seed(2)
    return CovarianceGRUEncoder(embedding_size=4, hidden_size=5, dropout=0.0, **settings).double()  # type: ignore[arg-type]


def sources(padding: int = 0) -> tuple[Tensor, Tensor]:
    torch.manual_seed(3)
    size = max(LENGTHS)
    embedded = torch.cat([torch.randn(3, size, 4), 1e6 * torch.ones(3, padding, 4)], dim=1).double()
    return embedded, torch.arange(size + padding) < torch.tensor(LENGTHS)[:, None]


def naive(encoder: CovarianceGRUEncoder, inputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the states (S, E) of one sentence (S, X), and h and C of every layer after it."""
    ends = []
    matrices = []
    for gru in encoder.layers:
        h, C = torch.zeros(5).double(), torch.zeros(5, 5).double()
        states = []
        for x in inputs:
            r = C @ h
            r = r / (1 + r @ r).sqrt() if encoder.scaled else r
            h = torch.gru_cell(torch.cat([x, r])[None], h[None], *gru.all_weights[0])[0]  # type: ignore[operator, union-attr]
            C = C + torch.outer(h, h)
            states.append(h)
        inputs = torch.stack(states)
        ends.append(h)
        matrices.append(C)
    return inputs, torch.stack(ends), torch.stack(matrices)


@SETTINGS
@pytest.mark.parametrize("chunk", [1, 4, 32])
def test_states_and_gradients_equal_a_naive_loop(
    settings: dict[str, int], chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(covariance_encoder, "CHUNK", chunk)
    encoder = build(**settings)
    embedded, mask = sources(padding=3)
    states, final = encoder(embedded, mask)
    loss, expected_loss = (torch.zeros((), dtype=torch.float64) for _ in range(2))
    for row, length in enumerate(LENGTHS):
        alone = None
        for part in (slice(0, 1), slice(1, 4), slice(4, length)):  # as a source that arrives in parts
            if part.start < length:
                _, alone = encoder(embedded[row : row + 1, part], mask[row : row + 1, part], alone)
        *expected, covariance = naive(encoder, embedded[row, :length])
        torch.testing.assert_close([states[row, :length], final.hidden[row]], expected)
        torch.testing.assert_close([alone.hidden[0], alone.cell[0]], [expected[1], covariance])
        loss = loss + states[row, :length].sin().sum() + final.hidden[row].sin().sum() + alone.cell[0].sin().sum()
        expected_loss = expected_loss + sum(part.sin().sum() for part in (*expected, covariance))
    gradients = (torch.autograd.grad(total, [*encoder.parameters()]) for total in (loss, expected_loss))
    torch.testing.assert_close(*gradients)
