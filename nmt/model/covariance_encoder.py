"""The encoder whose recurrent unit reads the covariance of its earlier states."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from nmt.kernels.dropout import Dropout
from nmt.model.encoder import Final, take
from nmt.model.units import gru_cell
from nmt.settings.arguments import Layers, Share, Size, check_arguments

CHUNK = 32  #: states that are recalled one by one instead of from C


class CovarianceGRUEncoder(nn.Module):
    """GRU whose input also holds C h, where C is the covariance of its past states. Its states are (B, S, E).

    h_t = GRU([x_t; r_t], h_{t−1}) with r_t = C_{t−1} h_{t−1} and C_t = C_{t−1} + h_t h_tᵀ (de Brébisson & Vincent 2016,
    §6). The paper prints C_t h_t, which would depend on h_t. r_t grows with t, and untrained gradients explode, so with
    ``scaled`` it is divided by √(1 + ‖r_t‖²).

    Within a chunk, C h = C₀ h + Σ_j h_j (h_jᵀ h) is a sum over the states since the chunk's start, so that training
    keeps one C per chunk, not per state.
    """

    resumable: ClassVar[bool] = True

    @check_arguments
    def __init__(
        self,
        *,
        embedding_size: Size,
        hidden_size: Size = 512,
        layers: Layers = 1,
        scaled: bool = True,
        dropout: Share = 0.2,
    ) -> None:
        super().__init__()
        self.state_size = hidden_size
        self.scaled = scaled
        self.dropout = Dropout(dropout)
        sizes = (hidden_size if layer else embedding_size for layer in range(layers))
        self.layers = nn.ModuleList(nn.GRU(size + hidden_size, hidden_size, batch_first=True) for size in sizes)

    def forward(self, embedded: Tensor, mask: Tensor, state: Final | None = None) -> tuple[Tensor, Final]:
        """Return the states (B, S, E) and the final state; see ``RecurrentEncoder.forward``.

        The ``cell`` of the final state holds C, as (B, L, E, E).
        """
        states, last = embedded, (mask.sum(1) - 1).clamp(min=0)[:, None]
        ends = []
        covariances = []
        for layer in range(len(self.layers)):
            if layer:
                states = self.dropout(states)
            start = states.new_zeros(len(states), self.state_size) if state is None else state.hidden[:, layer]
            covariance = None if state is None or state.cell is None else state.cell[:, layer]
            states, covariance = self._run(layer, states, start, covariance)
            ends.append(take(states, last))
            covariances.append(covariance)
        return states, Final(torch.cat(ends, dim=1), torch.stack(covariances, dim=1))

    def _run(self, layer: int, inputs: Tensor, hidden: Tensor, covariance: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the states (B, S, E) of a layer and the last C (B, E, E), from hidden (B, E) and C on."""
        rows, _, width = inputs.shape
        w_ih, w_hh, b_ih, b_hh = self.layers[layer].all_weights[0]  # type: ignore[index]
        w_input, w_recalled = torch.split(w_ih, [width, self.state_size], dim=1)
        written = inputs.new_zeros(rows, 0, self.state_size)
        states = []
        for from_input in linear(inputs, w_input, b_ih).unbind(1):
            recalled = _product(covariance, written, hidden)
            if self.scaled:
                recalled = recalled / (1 + recalled.square().sum(1, keepdim=True)).sqrt()
            hidden = gru_cell(from_input + linear(recalled, w_recalled), linear(hidden, w_hh, b_hh), hidden)
            states.append(hidden)
            written = torch.cat([written, hidden[:, None]], dim=1)
            if written.shape[1] == CHUNK:
                covariance = _add(covariance, written)
                written = written[:, :0]
        return torch.stack(states, dim=1), _add(covariance, written)


def _product(covariance: Tensor | None, written: Tensor, hidden: Tensor) -> Tensor:
    """Return C h (B, E), where C lacks the chunk's states ``written`` (B, j, E)."""
    recalled = ((written @ hidden[..., None]).transpose(1, 2) @ written)[:, 0]
    return recalled if covariance is None else recalled + (covariance @ hidden[..., None])[..., 0]


def _add(covariance: Tensor | None, written: Tensor) -> Tensor:
    """Return C with the chunk's states."""
    total = written.transpose(1, 2) @ written
    return total if covariance is None else covariance + total
