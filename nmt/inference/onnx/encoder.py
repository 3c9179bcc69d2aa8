"""The encoder as the graphs want it: ONNX' own LSTM, one node a layer, which knows lengths and both directions."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from nmt.model.encoder import Final, LSTMEncoder


class Layers(nn.Module):
    """The layers of ``encoder``, to be traced in its place; run here, it yields shapes without numbers."""

    def __init__(self, encoder: LSTMEncoder) -> None:
        super().__init__()
        directions = [encoder.forwards, encoder.backwards] if encoder.bidirectional else [encoder.forwards]
        layers = list(zip(*(_weights(direction) for direction in directions), strict=True))
        self.inputs, self.recurrences, self.biases = (
            nn.ParameterList(torch.stack([weights[at] for weights in layer]) for layer in layers) for at in range(3)
        )

    def forward(self, embedded: Tensor, mask: Tensor) -> tuple[Tensor, Final]:
        lengths = mask.sum(1).to(torch.int32)
        states, ends = embedded.transpose(0, 1), []
        for layer in zip(self.inputs, self.recurrences, self.biases, strict=True):
            each, end = _lstm(states, lengths, *layer)
            states = each.transpose(1, 2).flatten(2)  # (S, directions, B, H) → (S, B, E)
            ends.append(end.transpose(0, 1).flatten(1))  # (directions, B, H) → (B, E)
        return states.transpose(0, 1), Final(torch.stack(ends, dim=1), None)


def _lstm(states: Tensor, lengths: Tensor, inputs: Tensor, recurrence: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """One layer: states (S, B, X), lengths (B,) → (S, directions, B, H), and where they end (directions, B, H)."""
    size, rows, _ = states.shape
    directions, _, hidden = recurrence.shape
    each, end = torch.onnx.ops.symbolic_multi_out(
        "LSTM",
        [states, inputs, recurrence, bias, lengths],
        {"hidden_size": hidden, "direction": "bidirectional" if directions == 2 else "forward"},
        dtypes=[states.dtype, states.dtype],
        shapes=[(size, directions, rows, hidden), (directions, rows, hidden)],
    )
    return each, end


def _weights(direction: nn.ModuleList) -> list[tuple[Tensor, Tensor, Tensor]]:
    """For each layer: what meets input (4H, X) and state (4H, H), and both biases (8H), in ONNX' order of gates."""
    found = []
    for lstm in direction:
        assert isinstance(lstm, nn.LSTM)
        w_ih, w_hh, b_ih, b_hh = (_gates(weight.detach()) for weight in lstm.all_weights[0])
        found.append((w_ih, w_hh, torch.cat([b_ih, b_hh])))
    return found


def _gates(weight: Tensor) -> Tensor:
    """From PyTorch's order, input, forget, candidate, output, to ONNX': input, output, forget, candidate."""
    enter, forget, candidate, leave = weight.chunk(4)
    return torch.cat([enter, leave, forget, candidate])
