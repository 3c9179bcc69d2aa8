"""Modules that the exporter traces into ONNX graphs."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from nmt.attention.base import Memory
from nmt.inference.onnx.encoder import OnnxLSTMEncoder, with_range
from nmt.kernels.recurrence import lstm_cell
from nmt.model.decoder import State
from nmt.model.seq2seq import Seq2Seq
from nmt.text.specials import PAD

K = 4  # number of candidates while tracing; an input of the exported graph
MAX_TABLE = 1 << 25  # maximum size of the table of embeddings times weights, in numbers: 128 MB
Fields = dict[str, Tensor]


class Encode(nn.Module):
    """Maps ids (B, S) to the fields of the memory and the state of one empty hypothesis.

    ``constant_range`` prepares the graph for 8-bit integers (``OnnxLSTMEncoder``).
    """

    def __init__(self, model: Seq2Seq, *, trace: bool, constant_range: bool = False) -> None:
        super().__init__()
        self.embedding = with_range(model.embedding) if constant_range else model.embedding
        self.encoder = OnnxLSTMEncoder(model.encoder, constant_range=constant_range)
        self.attention, self.decoder = model.attention, model.decoder
        self.trace = trace

    def forward(self, ids: Tensor) -> Fields:
        mask = ids != PAD
        states, final = self.encoder(self.embedding(ids), mask)
        memory = self.attention.write(states, mask, trace=self.trace)
        return memory_fields(memory) | state_fields(self.decoder.init(final, memory))


class Step(nn.Module):
    """One decoder step, with the reordering of the hypotheses and the selection of the k best candidates.

    Each LSTM layer is one matrix product of [input; hidden], not two: this halves the number of calls and of matrices
    to quantise.
    """

    def __init__(self, model: Seq2Seq) -> None:
        super().__init__()
        self.decoder = model.decoder
        layers = model.decoder.lstm.all_weights
        self.weights = nn.ParameterList(torch.cat([w_ih, w_hh], dim=1).t().contiguous() for w_ih, w_hh, *_ in layers)
        self.biases = nn.ParameterList(b_ih + b_hh for _, _, b_ih, b_hh in layers)
        # An embedding's part in the gates of the first layer depends on the token only, so it is computed in advance.
        embeddings, first = model.decoder.embedding.weight, self.weights[0]
        self.has_table = len(embeddings) * first.shape[1] <= MAX_TABLE
        if self.has_table:
            size = embeddings.shape[1]
            self.table = nn.Parameter(torch.addmm(self.biases[0], embeddings, first[:size]))
            self.weights[0] = first[size:].contiguous()

    def forward(
        self,
        memory: Fields,
        state: Fields,
        tokens: Tensor,
        parents: Tensor,
        output_weight: Tensor | None = None,
        output_bias: Tensor | None = None,
    ) -> tuple[Tensor, ...]:
        """Return log-probabilities and ids of the K best candidates, read weights, and the fields of the next state.

        ``output_weight`` and ``output_bias`` restrict the candidates to these rows of the output layer.
        """
        decoder, (rows, beams) = self.decoder, tokens.shape
        previous_beams = state["hidden.0"].shape[1]
        reordered = (torch.arange(rows)[:, None] * previous_beams + parents).flatten()
        state = {name: field.flatten(0, 1).index_select(0, reordered) for name, field in state.items()}
        inputs = [state["input_feed"]] if decoder.input_feeding else []
        if self.has_table:
            gates = functional.embedding(tokens.flatten(), self.table)
        else:
            gates, inputs = self.biases[0], [decoder.embedding(tokens.flatten()), *inputs]
        next_state: Fields = {}
        for layer, weight in enumerate(self.weights):
            joined = torch.cat([*inputs, state[f"hidden.{layer}"]], dim=1)
            gates = torch.addmm(self.biases[layer] if layer else gates, joined, weight)
            hidden, cell = lstm_cell(gates, state[f"cell.{layer}"])
            next_state |= {f"hidden.{layer}": hidden, f"cell.{layer}": cell}
            inputs = [hidden]
        input_feed, features, weights = decoder.attend(hidden.reshape(rows, beams, -1), Memory(**memory))
        if output_weight is None:
            output_weight, output_bias = decoder.output.weight, decoder.output.bias
        log_probs = functional.linear(features.flatten(0, 1), output_weight, output_bias).log_softmax(1)
        best, ids = log_probs.reshape(rows, beams, -1).topk(K, dim=2)
        next_state = {name: field.reshape(rows, beams, -1) for name, field in next_state.items()}
        return best, ids, weights, *next_state.values(), *([input_feed] if decoder.input_feeding else [])


class Align(nn.Module):
    """Maps read weights (B, T, R) to an alignment (B, T, S)."""

    def __init__(self, model: Seq2Seq) -> None:
        super().__init__()
        self.model = model

    def forward(self, memory: Fields, weights: Tensor) -> Tensor:
        return self.model.attention.align(weights, Memory(**memory))


def memory_fields(memory: Memory) -> Fields:
    """Return the fields of the memory that are not None."""
    return {name: field for name, field in memory._asdict().items() if field is not None}


def state_fields(state: State) -> Fields:
    """Return the state with one field (B, N, H) per layer, so that a step does not stack and unstack the layers."""
    fields: Fields = {}
    for layer, (hidden, cell) in enumerate(zip(state.hidden.unbind(2), state.cell.unbind(2), strict=True)):
        fields |= {f"hidden.{layer}": hidden, f"cell.{layer}": cell}
    return fields | ({"input_feed": state.input_feed} if state.input_feed.shape[2] else {})


def encode_fields(model: Seq2Seq, ids: Tensor, *, trace: bool) -> tuple[Fields, Fields]:
    """Return the fields of memory and state, as ``Encode`` does, but computed by the original model."""
    memory, final = model.encode(ids, ids != PAD, trace=trace)
    return memory_fields(memory), state_fields(model.decoder.init(final, memory))


def needs_trace(model: Seq2Seq) -> bool:
    """Return whether alignments need a trace in the memory, besides the read weights."""
    ids = torch.full((1, 2), PAD + 5)
    memory, _ = model.encode(ids, ids != PAD)
    weights = model.attention.read(torch.zeros(1, 1, model.decoder.lstm.hidden_size), memory)[1]
    try:
        model.attention.align(weights, memory)
    except ValueError:
        return True
    return False
