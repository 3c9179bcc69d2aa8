"""Modules that the exporter traces into ONNX graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from nmt.attention.base import Memory
from nmt.inference.model_folder import load_folder
from nmt.kernels.recurrence import lstm_cell
from nmt.model.decoder import LSTMDecoder, State
from nmt.model.encoder import Final, LSTMEncoder
from nmt.model.fields import map_tensors
from nmt.model.seq2seq import Seq2Seq
from nmt.model.transformer_decoder import TransformerState
from nmt.system.machine import torch_threads
from nmt.text.specials import PAD

K = 4  # number of candidates while tracing; an input of the exported graph
MAX_TABLE = 1 << 25  # maximum size of the table of embeddings times weights, in numbers: 128 MB
CONSTANTS = (1.0, -1.0)
SATURATED = 30.0  # σ(30) is 1 in float32, and so is tanh(30)
Fields = dict[str, Tensor]


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
        states = embedded.transpose(0, 1)
        finals = []
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


class Encode(nn.Module):
    """Maps ids (B, S) to the fields of the memory and the state of one empty hypothesis.

    ``constant_range`` prepares the graph for 8-bit integers (``OnnxLSTMEncoder``).
    """

    def __init__(self, model: Seq2Seq, *, trace: bool, constant_range: bool = False) -> None:
        super().__init__()
        lstm = isinstance(model.encoder, LSTMEncoder)
        self.embedding = with_range(model.embedding) if constant_range and lstm else model.embedding
        self.encoder = OnnxLSTMEncoder(model.encoder, constant_range=constant_range) if lstm else model.encoder
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
        embeddings = model.decoder.embedding.weight
        first = self.weights[0]
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
        input_feed, features, weights = decoder.attend(
            hidden.reshape(rows, beams, -1), decoder.attention.memory_type(**memory)
        )
        best, ids = _candidates(decoder, features, output_weight, output_bias)
        next_state = {name: field.reshape(rows, beams, -1) for name, field in next_state.items()}
        return best, ids, weights, *next_state.values(), *([input_feed] if decoder.input_feeding else [])


class TransformerStep(nn.Module):
    """One step of a Transformer decoder, with inputs and outputs like those of ``Step``."""

    def __init__(self, model: Seq2Seq, structure: TransformerState) -> None:
        """``structure`` is any state of the model's decoder."""
        super().__init__()
        self.decoder: Any = model.decoder
        self.structure = structure

    def forward(
        self,
        memory: Fields,
        state: Fields,
        tokens: Tensor,
        parents: Tensor,
        output_weight: Tensor | None = None,
        output_bias: Tensor | None = None,
    ) -> tuple[Tensor, ...]:
        rows, beams = tokens.shape
        parent_rows = (torch.arange(rows)[:, None] * state["position"].shape[1] + parents).flatten()
        reordered = (
            field.flatten(0, 1).index_select(0, parent_rows).reshape(rows, beams, *field.shape[2:])
            for field in state.values()
        )
        before = map_tensors(lambda _: next(reordered), self.structure)
        features, after, weights = self.decoder.step_features(
            tokens, before, self.decoder.attention.memory_type(**memory)
        )
        best, ids = _candidates(self.decoder, features, output_weight, output_bias)
        return best, ids, weights, *state_fields(after).values()


def build_step(model: Seq2Seq, state: State | TransformerState) -> nn.Module:
    """Return the module of one decoder step; ``state`` is any state of the model's decoder."""
    return TransformerStep(model, state) if isinstance(state, TransformerState) else Step(model)


def _candidates(
    decoder: LSTMDecoder, features: Tensor, output_weight: Tensor | None, output_bias: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Return log-probabilities and ids (B, N, K) of the best candidates, for features (B, N, F)."""
    if output_weight is None:
        output_weight = decoder.output.weight
        output_bias = decoder.output.bias
    log_probs = functional.linear(features.flatten(0, 1), output_weight, output_bias).log_softmax(1)
    best, ids = log_probs.reshape(*features.shape[:2], -1).topk(K, dim=2)
    return best, ids


class Align(nn.Module):
    """Maps read weights (B, T, R) to an alignment (B, T, S)."""

    def __init__(self, model: Seq2Seq) -> None:
        super().__init__()
        self.model = model

    def forward(self, memory: Fields, weights: Tensor) -> Tensor:
        return self.model.attention.align(weights, self.model.attention.memory_type(**memory))


def memory_fields(memory: Memory) -> Fields:
    """Return the fields of the memory that are not None."""
    return {name: field for name, field in memory._asdict().items() if field is not None}


def state_fields(state: State | TransformerState) -> Fields:
    """Return the state with separate fields (B, N, …) per layer, so that a step does not stack and unstack them."""
    fields: Fields = {}
    if isinstance(state, TransformerState):
        for layer, layer_state in enumerate(state.layers):
            fields |= {f"state{part}.{layer}": field for part, field in enumerate(layer_state)}
        return {"position": state.position} | fields
    for layer, (hidden, cell) in enumerate(zip(state.hidden.unbind(2), state.cell.unbind(2), strict=True)):
        fields |= {f"hidden.{layer}": hidden, f"cell.{layer}": cell}
    return fields | ({"input_feed": state.input_feed} if state.input_feed.shape[2] else {})


def bounded_fields(model: Seq2Seq) -> set[str]:
    """Return the names of the state fields whose numbers lie in [−1, 1]."""
    if not isinstance(model.decoder, LSTMDecoder):
        return set()
    hidden = {f"hidden.{layer}" for layer in range(model.decoder.lstm.num_layers)}
    # h̃ is a hyperbolic tangent; contexts, which input feeding uses without it, have no bound.
    return hidden | ({"input_feed"} if model.decoder.combine is not None else set())


def example_states(model: Seq2Seq, ids: Tensor, beams: int) -> tuple[Any, Any]:
    """Return decoder states of ``beams`` hypotheses per source after two steps, and after three."""
    memory, final = model.encode(ids, ids != PAD)
    state = model.decoder.init(final, memory)
    state = model.decoder.reorder(state, torch.zeros(len(ids), beams, dtype=torch.int64))
    states = []
    for _ in range(3):
        state = model.decoder.step(torch.full((len(ids), beams), PAD + 5), state, memory)[1]
        states.append(state)
    return states[1], states[2]


def encode_fields(model: Seq2Seq, ids: Tensor, *, trace: bool) -> tuple[Fields, Fields]:
    """Return the fields of memory and state, as ``Encode`` does, but computed by the original model."""
    memory, final = model.encode(ids, ids != PAD, trace=trace)
    return memory_fields(memory), state_fields(model.decoder.init(final, memory))


def torch_encoder(
    run: Path, *, threads: int | None, trust: Sequence[str]
) -> Callable[[np.ndarray], dict[str, np.ndarray]]:
    """Return a function that maps ids (B, S) to the outputs of ``encode.onnx``, computed by the model of ``run``."""
    if threads is not None:
        torch.set_num_threads(torch_threads(threads))
    model = load_folder(run, trust=trust).model
    trace = model.attention.needs_trace
    model.double()  # sums in float64, rounded to float32, do not depend on the other sentences of the batch

    @torch.inference_mode()
    def encode(ids: np.ndarray) -> dict[str, np.ndarray]:
        memory, state = encode_fields(model, torch.from_numpy(ids), trace=trace)
        fields = {**memory, **state}.items()
        return {name: (field.float() if field.is_floating_point() else field).numpy() for name, field in fields}

    return encode
