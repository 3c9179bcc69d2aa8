"""Modules that the exporter traces into ONNX graphs."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from nmt.attention.base import Memory
from nmt.model.decoder import Decoder, State, map_tensors
from nmt.model.encoder import Final, RecurrentEncoder
from nmt.model.seq2seq import Seq2Seq
from nmt.model.units import LSTM, Parts, halves
from nmt.text.specials import PAD

K = 4  # number of candidates while tracing; an input of the exported graph
MAX_TABLE = 1 << 25  # maximum size of the table of embeddings times weights, in numbers: 128 MB
CONSTANTS = (1.0, -1.0)
SATURATED = 30.0  # σ(30) is 1 in float32, and so is tanh(30)
Fields = dict[str, Tensor]


# The order of the gates in the weights of ONNX, as positions in PyTorch's order.
GATES = {"LSTM": [0, 3, 1, 2], "GRU": [1, 0, 2]}  # input, output, forget, cell; update, reset, candidate
ATTRIBUTES = {"LSTM": {}, "GRU": {"linear_before_reset": 1}}  # PyTorch's variant of the GRU


class OnnxRecurrentEncoder(nn.Module):
    """Replaces ``encoder`` while a graph is traced. When run by torch, it returns shapes without values.

    onnxruntime has no 8-bit GRU, but an 8-bit LSTM. That one rounds its inputs and hidden states by the range of
    the whole batch in each step. With ``constant_range``, each layer gets two more units, whose hidden states are
    always 1 and −1. Their outgoing weights are 0, so they change nothing but this range, which is then the same for
    every batch. The embeddings need two such columns as well (``with_range``).
    """

    def __init__(self, encoder: RecurrentEncoder, *, constant_range: bool) -> None:
        super().__init__()
        self.operator = encoder.unit.name.upper()
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
            outputs, final = _recurrent(self.operator, states, lengths, *layer, *start)
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


def _recurrent(
    operator: str,
    states: Tensor,
    lengths: Tensor,
    input_weight: Tensor,
    hidden_weight: Tensor,
    bias: Tensor,
    *start: Tensor,
) -> tuple[Tensor, Tensor]:
    """Add an LSTM or GRU node. Return outputs (S, directions, B, H) and final states (directions, B, H).

    The arguments are the name of the operator, states (S, B, X), lengths (B,) and what ``_weights`` returns. ``start``
    is the initial hidden and cell state, each (directions, B, H). Without it, they are 0.
    """
    size, rows, _ = states.shape
    directions, _, hidden = hidden_weight.shape
    outputs, final = torch.onnx.ops.symbolic_multi_out(
        operator,
        [states, input_weight, hidden_weight, bias, lengths, *start],
        {
            "hidden_size": hidden,
            "direction": "bidirectional" if directions == 2 else "forward",
            **ATTRIBUTES[operator],
        },
        dtypes=[states.dtype, states.dtype],
        shapes=[(size, directions, rows, hidden), (directions, rows, hidden)],
    )
    return outputs, final


def _weights(direction: nn.ModuleList, extra: int) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Return the input weight (G, X), hidden weight (G, H) and both biases (2G) of each layer, in ONNX gate order.

    H and X include ``extra`` units, of LSTMs only. G is H times the number of gates.
    """
    layers: list[tuple[Tensor, Tensor, Tensor]] = []
    for recurrent in direction:
        assert isinstance(recurrent, nn.RNNBase)
        order = GATES[recurrent.mode]
        count = len(order)
        w_ih, w_hh, b_ih, b_hh = (
            torch.cat([weight.detach().chunk(count)[gate] for gate in order]) for weight in recurrent.all_weights[0]
        )
        # The inputs of the upper layers are the outputs of all directions, each with its extra units.
        blocks = recurrent.input_size // recurrent.hidden_size if layers else 1
        saturated = torch.tensor([0, SATURATED, SATURATED, 0])[:count, None].expand(count, extra)  # output, forget gate
        b_ih = torch.cat([b_ih.reshape(count, -1), saturated], dim=1).flatten()
        b_hh = _widen(b_hh.reshape(count, 1, -1), extra).flatten()
        w_ih, w_hh = _widen(w_ih.reshape(len(w_ih), blocks, -1), extra).flatten(1), _widen(w_hh, extra)
        w_ih, w_hh = (_widen(w.t().reshape(w.shape[1], count, -1), extra).flatten(1).t() for w in (w_ih, w_hh))
        layers.append((w_ih, w_hh, torch.cat([b_ih, b_hh])))
    return layers


def _widen(weight: Tensor, extra: int) -> Tensor:
    """Return the weight with ``extra`` zeros at the end of its last axis."""
    return nn.functional.pad(weight, (0, extra))


def keeps_range(encoder: Any) -> bool:
    """Return whether ``OnnxRecurrentEncoder`` computes this encoder, so that 8-bit LSTMs do not depend on the batch."""
    return type(encoder).forward is RecurrentEncoder.forward and encoder.unit is LSTM


class Encode(nn.Module):
    """Maps ids (B, S) to the fields of the memory and the state of one empty hypothesis.

    ``constant_range`` prepares the graph for 8-bit integers (``OnnxRecurrentEncoder``).
    """

    def __init__(self, model: Seq2Seq, *, trace: bool, constant_range: bool) -> None:
        super().__init__()
        recurrent = type(model.encoder).forward is RecurrentEncoder.forward
        self.constant_range = constant_range = constant_range and keeps_range(model.encoder)
        self.embedding = with_range(model.embedding) if constant_range else model.embedding
        self.encoder = (
            OnnxRecurrentEncoder(model.encoder, constant_range=constant_range) if recurrent else model.encoder
        )
        self.attention, self.decoder = model.attention, model.decoder
        self.trace = trace

    def forward(self, ids: Tensor) -> Fields:
        mask = ids != PAD
        states, final = self.encoder(self.embedding(ids), mask)
        memory = self.attention.write(states, mask, trace=self.trace)
        return memory_fields(memory) | state_fields(self.decoder.init(final, memory))


class Step(nn.Module):
    """One decoder step, with the reordering of the hypotheses and the selection of the k best candidates."""

    def __init__(self, model: Seq2Seq, structure: Any) -> None:
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
        """Return log-probabilities and ids of the K best candidates, read weights, and the fields of the next state.

        ``output_weight`` and ``output_bias`` restrict the candidates to these rows of the output layer.
        """
        parents = parents[:, :, None]
        reordered = (_gather(field, parents) for field in state.values())
        before = map_tensors(lambda _: next(reordered), self.structure)
        features, after, weights = self.features(tokens, before, Memory(**memory))
        log_probs = _log_probs(self.decoder, features, output_weight, output_bias)
        return *log_probs.topk(K, dim=2), weights, *state_fields(after).values()

    def features(self, tokens: Tensor, state: Any, memory: Memory) -> tuple[Tensor, Any, Tensor]:
        """Return the inputs of the output layer, the next state and the read weights."""
        features, after, weights = self.decoder.step_features(tokens, state, memory)
        return features, after, weights


def _gather(field: Tensor, parents: Tensor) -> Tensor:
    """Add the node that takes the hypotheses ``parents`` (B, N, 1) of each sentence from a field (B, N', …)."""
    shape = [*parents.shape[:2], *field.shape[2:]]
    taken: Tensor = torch.onnx.ops.symbolic(
        "GatherND", [field, parents], {"batch_dims": 1}, dtype=field.dtype, shape=shape
    )
    return taken


class RecurrentStep(Step):
    """Step of a recurrent decoder with fewer products.

    Products whose sum the unit takes are one product of [input; hidden], not two: this halves the number of calls and
    of matrices to quantise.
    """

    def __init__(self, model: Seq2Seq, structure: State) -> None:
        super().__init__(model, structure)
        self.weights = nn.ParameterList()
        self.biases = nn.ParameterList()
        for parameters in self.decoder.layers.all_weights:
            weights, biases = map(self.decoder.unit.grouped, halves(parameters))
            self.weights += [torch.cat(group, dim=1).t() for group in weights]
            self.biases += [sum(group) for group in biases]
        # An embedding's part in the gates of the first layer depends on the token only, so it is computed in advance.
        embeddings = model.decoder.embedding.weight
        first = self.weights[0]
        self.has_table = len(embeddings) * first.shape[1] <= MAX_TABLE
        if self.has_table:
            size = embeddings.shape[1]
            self.table = nn.Parameter(torch.addmm(self.biases[0], embeddings, first[:size]))
            self.weights[0] = first[size:]
        for at, weight in enumerate(self.weights):
            self.weights[at] = weight.contiguous()

    def features(self, tokens: Tensor, state: State, memory: Memory) -> tuple[Tensor, State, Tensor]:
        decoder = self.decoder
        inputs = [] if state.input_feed is None else [state.input_feed]
        if self.has_table:
            sums = functional.embedding(tokens, self.table)
        else:
            sums, inputs = self.biases[0], [decoder.embedding(tokens), *inputs]
        products = zip(self.biases, self.weights, strict=True)
        layers: list[Parts] = []
        for layer, before in enumerate(state.layers):
            gates: list[Tensor] = []
            for group in decoder.unit.grouped((inputs, before[:1])):
                vectors = [vector for part in group for vector in part]
                bias, weight = next(products)
                bias = bias if layer or gates else sums
                gates.append(torch.cat(vectors, dim=2) @ weight + bias if vectors else bias)
            layers.append(decoder.unit.cell(*gates, *before))
            inputs = [decoder.unit.output(layers[-1][0])]
        input_feed, features, weights = decoder.attend(inputs[0], memory)
        return features, State(tuple(layers), None if state.input_feed is None else input_feed), weights


def _log_probs(decoder: Decoder, features: Tensor, output_weight: Tensor | None, output_bias: Tensor | None) -> Tensor:
    """Return the log-probabilities (B, N, V) of all pieces, for features (B, N, F)."""
    if output_weight is None:
        output_weight = decoder.output.weight
        output_bias = decoder.output.bias
    log_probs = functional.linear(features.flatten(0, 1), output_weight, output_bias).log_softmax(1)
    return log_probs.reshape(*features.shape[:2], -1)


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


def state_fields(state: Any, path: str = "") -> Fields:
    """Return the tensors of a decoder state by their paths, such as ``layers.0.1``, without those that are None."""
    if not isinstance(state, tuple):
        return {} if state is None else {path.removeprefix("."): state}
    names = getattr(state, "_fields", range(len(state)))
    parts = zip(names, state, strict=True)
    return {key: field for name, part in parts for key, field in state_fields(part, f"{path}.{name}").items()}


def example_states(model: Seq2Seq, ids: Tensor, beams: int) -> tuple[Any, Any, Tensor]:
    """Return decoder states of ``beams`` hypotheses per source after two steps, and after three, and read weights."""
    memory, final = model.encode(ids, ids != PAD)
    state = model.decoder.init(final, memory)
    state = model.decoder.reorder(state, torch.zeros(len(ids), beams, dtype=torch.int64))
    states = []
    for _ in range(3):
        _, state, weights = model.decoder.step(torch.full((len(ids), beams), PAD + 5), state, memory)
        states.append(state)
    return states[1], states[2], weights


def encode_fields(model: Seq2Seq, ids: Tensor, *, trace: bool) -> tuple[Fields, Fields]:
    """Return the fields of memory and state, as ``Encode`` does, but computed by the original model."""
    memory, final = model.encode(ids, ids != PAD, trace=trace)
    return memory_fields(memory), state_fields(model.decoder.init(final, memory))
