"""The encoder as ONNX LSTM nodes: one node per layer, which handles lengths and both directions."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from nmt.model.encoder import Final, LSTMEncoder

CONSTANTS = (1.0, -1.0)
SATURATED = 30.0  # σ(30) is 1 in float32, and so is tanh(30)


class OnnxLSTMEncoder(nn.Module):
    """Replaces ``encoder`` while a graph is traced. When run by torch, it returns shapes without values.

    onnxruntime's 8-bit LSTM rounds its inputs and hidden states by the range of the whole batch in each step. With
    ``constant_range``, each layer gets two more units, whose hidden states are always 1 and −1. Their outgoing weights
    are 0, so they change nothing but this range, which is then the same for every batch. The embeddings need two
    such columns as well (``with_range``).
    """

    def __init__(self, encoder: LSTMEncoder, *, constant_range: bool = False) -> None:
        super().__init__()
        directions = [encoder.forwards, encoder.backwards] if encoder.bidirectional else [encoder.forwards]
        self.extra = len(CONSTANTS) if constant_range else 0
        layers = list(zip(*(_weights(direction, self.extra) for direction in directions), strict=True))
        self.input_weights, self.hidden_weights, self.biases = (
            nn.ParameterList(torch.stack([weights[part] for weights in layer]) for layer in layers) for part in range(3)
        )
        self.units = self.hidden_weights[0].shape[2] - self.extra
        self.hidden = nn.Buffer(torch.zeros(len(directions), 1, self.units + self.extra))
        self.hidden[..., self.units :] = torch.tensor(CONSTANTS[: self.extra])

    def forward(self, embedded: Tensor, mask: Tensor) -> tuple[Tensor, Final]:
        lengths = mask.sum(1).to(torch.int32)
        hidden = self.hidden.expand(-1, lengths.shape[0], -1)
        start = [hidden, SATURATED * hidden] if self.extra else []
        states, finals = embedded.transpose(0, 1), []
        for layer in zip(self.input_weights, self.hidden_weights, self.biases, strict=True):
            outputs, final = _lstm(states, lengths, *layer, *start)
            outputs = outputs.transpose(1, 2)  # (S, directions, B, H) → (S, B, directions, H)
            states = outputs.flatten(2)
            finals.append(final[..., : self.units].transpose(0, 1).flatten(1))  # (directions, B, H) → (B, E)
        states = outputs[..., : self.units].flatten(2)
        return states.transpose(0, 1), Final(torch.stack(finals, dim=1), None)


def with_range(embedding: nn.Embedding) -> nn.Embedding:
    """Return the embedding with two more columns: the largest absolute value of all embeddings, and its negative."""
    weight = embedding.weight.detach()
    columns = (weight.abs().max() * torch.tensor(CONSTANTS)).expand(len(weight), -1)
    widened = nn.Embedding(len(weight), weight.shape[1] + len(CONSTANTS))
    widened.weight = nn.Parameter(torch.cat([weight, columns], dim=1))
    return widened


def _lstm(
    states: Tensor, lengths: Tensor, input_weight: Tensor, hidden_weight: Tensor, bias: Tensor, *start: Tensor
) -> tuple[Tensor, Tensor]:
    """Add one LSTM node: states (S, B, X), lengths (B,) → outputs (S, directions, B, H), final (directions, B, H).

    ``start`` is the initial hidden and cell state, each (directions, B, H). Without it, they are 0.
    """
    size, rows, _ = states.shape
    directions, _, hidden = hidden_weight.shape
    outputs, final = torch.onnx.ops.symbolic_multi_out(
        "LSTM",
        [states, input_weight, hidden_weight, bias, lengths, *start],
        {"hidden_size": hidden, "direction": "bidirectional" if directions == 2 else "forward"},
        dtypes=[states.dtype, states.dtype],
        shapes=[(size, directions, rows, hidden), (directions, rows, hidden)],
    )
    return outputs, final


def _weights(direction: nn.ModuleList, extra: int) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Return the input weight (4H, X), hidden weight (4H, H) and both biases (8H) of each layer, in ONNX gate order.

    H and X include ``extra`` units.
    """
    layers: list[tuple[Tensor, Tensor, Tensor]] = []
    for lstm in direction:
        assert isinstance(lstm, nn.LSTM)
        w_ih, w_hh, b_ih, b_hh = (_onnx_gate_order(weight.detach()) for weight in lstm.all_weights[0])
        # The inputs of the upper layers are the outputs of all directions, each with its extra units.
        blocks = lstm.input_size // lstm.hidden_size if layers else 1
        saturated = torch.tensor([0, SATURATED, SATURATED, 0])[:, None].expand(4, extra)  # output and forget gates
        b_ih = torch.cat([b_ih.reshape(4, -1), saturated], dim=1).flatten()
        b_hh = _widen(b_hh.reshape(4, 1, -1), extra).flatten()
        w_ih, w_hh = _widen(w_ih.reshape(len(w_ih), blocks, -1), extra).flatten(1), _widen(w_hh, extra)
        w_ih, w_hh = (_widen(w.t().reshape(w.shape[1], 4, -1), extra).flatten(1).t() for w in (w_ih, w_hh))
        layers.append((w_ih, w_hh, torch.cat([b_ih, b_hh])))
    return layers


def _widen(weight: Tensor, extra: int) -> Tensor:
    """Return the weight with ``extra`` zeros at the end of its last axis."""
    return nn.functional.pad(weight, (0, extra))


def _onnx_gate_order(weight: Tensor) -> Tensor:
    """Reorder the gates from PyTorch's order (input, forget, cell, output) to ONNX's (input, output, forget, cell)."""
    input_gate, forget_gate, cell_gate, output_gate = weight.chunk(4)
    return torch.cat([input_gate, output_gate, forget_gate, cell_gate])
