"""An LSTM that reads the covariance memory of the states it has produced: the recurrent unit that is fed with C h.

de Brébisson & Vincent (2016), A Cheap Linear Attention Mechanism with Fast Lookups and Fixed-Size Representations,
arXiv 1609.05866, §6, proposes it as an extension and prints no equations. Our reading: the unit gets C_s h_s beside the
next input, where C_s = Σ_{j≤s} h_j h_jᵀ / s. It can thus attend to what it has read before.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class RecallLSTM(nn.Module):
    """h_{s+1}, c_{s+1} = LSTM([x_{s+1}, C_s h_s], h_s, c_s), in one direction, from zeros."""

    def __init__(self, embedding_size: int, hidden_size: int) -> None:
        super().__init__()
        self.inputs = nn.Linear(embedding_size, 4 * hidden_size)
        self.recurrent = nn.Linear(2 * hidden_size, 4 * hidden_size, bias=False)

    def forward(self, embedded: Tensor) -> tuple[Tensor, None]:
        """Return the states (B, S, E) of the inputs (B, S, X).

        C_s h_s is computed as Σ_j h_j (h_j · h_s) / s, which is faster than C_s for short documents.
        """
        size = self.recurrent.in_features // 2
        cell = embedded.new_zeros(len(embedded), size)
        both = embedded.new_zeros(len(embedded), 2 * size)  # h_s and C_s h_s
        states: list[Tensor] = []
        for from_input in self.inputs(embedded).unbind(1):
            gates = from_input + self.recurrent(both)
            input_gate, forget_gate, output_gate = gates[:, : 3 * size].sigmoid().chunk(3, dim=1)
            cell = forget_gate * cell + input_gate * gates[:, 3 * size :].tanh()
            states.append(output_gate * cell.tanh())
            written = torch.stack(states, dim=1)
            recalled = written.transpose(1, 2) @ (written @ states[-1][..., None]) / len(states)
            both = torch.cat([states[-1], recalled[..., 0]], dim=1)
        return torch.stack(states, dim=1), None
