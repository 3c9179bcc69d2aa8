"""The encoder as ONNX LSTM nodes: one node per layer, which handles lengths and both directions."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from nmt.model.encoder import Final, LSTMEncoder


class OnnxLSTMEncoder(nn.Module):
    """Replaces ``encoder`` while a graph is traced. When run by torch, it returns shapes without values."""

    def __init__(self, encoder: LSTMEncoder) -> None:
        super().__init__()
        directions = [encoder.forwards, encoder.backwards] if encoder.bidirectional else [encoder.forwards]
        layers = list(zip(*(_weights(direction) for direction in directions), strict=True))
        self.input_weights, self.hidden_weights, self.biases = (
            nn.ParameterList(torch.stack([weights[part] for weights in layer]) for layer in layers) for part in range(3)
        )

    def forward(self, embedded: Tensor, mask: Tensor) -> tuple[Tensor, Final]:
        lengths = mask.sum(1).to(torch.int32)
        states, finals = embedded.transpose(0, 1), []
        for layer in zip(self.input_weights, self.hidden_weights, self.biases, strict=True):
            outputs, final = _lstm(states, lengths, *layer)
            states = outputs.transpose(1, 2).flatten(2)  # (S, directions, B, H) → (S, B, E)
            finals.append(final.transpose(0, 1).flatten(1))  # (directions, B, H) → (B, E)
        return states.transpose(0, 1), Final(torch.stack(finals, dim=1), None)


def _lstm(
    states: Tensor, lengths: Tensor, input_weight: Tensor, hidden_weight: Tensor, bias: Tensor
) -> tuple[Tensor, Tensor]:
    """Add one LSTM node: states (S, B, X), lengths (B,) → outputs (S, directions, B, H), final (directions, B, H)."""
    size, rows, _ = states.shape
    directions, _, hidden = hidden_weight.shape
    outputs, final = torch.onnx.ops.symbolic_multi_out(
        "LSTM",
        [states, input_weight, hidden_weight, bias, lengths],
        {"hidden_size": hidden, "direction": "bidirectional" if directions == 2 else "forward"},
        dtypes=[states.dtype, states.dtype],
        shapes=[(size, directions, rows, hidden), (directions, rows, hidden)],
    )
    return outputs, final


def _weights(direction: nn.ModuleList) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Return the input weight (4H, X), hidden weight (4H, H) and both biases (8H) of each layer, in ONNX gate order."""
    layers = []
    for lstm in direction:
        assert isinstance(lstm, nn.LSTM)
        w_ih, w_hh, b_ih, b_hh = (_onnx_gate_order(weight.detach()) for weight in lstm.all_weights[0])
        layers.append((w_ih, w_hh, torch.cat([b_ih, b_hh])))
    return layers


def _onnx_gate_order(weight: Tensor) -> Tensor:
    """Reorder the gates from PyTorch's order (input, forget, cell, output) to ONNX's (input, output, forget, cell)."""
    input_gate, forget_gate, cell_gate, output_gate = weight.chunk(4)
    return torch.cat([input_gate, output_gate, forget_gate, cell_gate])
