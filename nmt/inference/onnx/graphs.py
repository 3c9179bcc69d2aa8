"""What the ONNX graphs compute, as modules to be traced."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from nmt.attention.base import Memory
from nmt.inference.onnx.encoder import Layers
from nmt.kernels.recurrence import lstm_cell
from nmt.model.decoder import State
from nmt.model.seq2seq import Seq2Seq
from nmt.text.specials import PAD

K = 4  # candidates in the traced graph; an input of the written one
TABLE = 1 << 25  # numbers at most in a table of embeddings times weights: 128 MB
Fields = dict[str, Tensor]


class Encode(nn.Module):
    """ids (B, S) → every field of the memory, and the state of one empty hypothesis."""

    def __init__(self, model: Seq2Seq, *, trace: bool) -> None:
        super().__init__()
        self.embedding, self.encoder = model.embedding, Layers(model.encoder)
        self.attention, self.decoder = model.attention, model.decoder
        self.trace = trace

    def forward(self, ids: Tensor) -> Fields:
        mask = ids != PAD
        states, final = self.encoder(self.embedding(ids), mask)
        memory = self.attention.write(states, mask, trace=self.trace)
        return there(memory) | apart(self.decoder.init(final, memory))


class Step(nn.Module):
    """``LSTMDecoder.step`` for each hypothesis, re-ordering and the choice of the k best included.

    Each layer is one product, [input; hidden] with both its matrices side by side: half the calls, and one to quantise.
    """

    def __init__(self, model: Seq2Seq) -> None:
        super().__init__()
        self.decoder = model.decoder
        layers = model.decoder.lstm.all_weights
        self.weights = nn.ParameterList(torch.cat([w_ih, w_hh], dim=1).t().contiguous() for w_ih, w_hh, *_ in layers)
        self.biases = nn.ParameterList(b_ih + b_hh for _, _, b_ih, b_hh in layers)
        # What an embedding adds to the first layer's gates depends on nothing else: it can be looked up.
        embeddings, first = model.decoder.embedding.weight, self.weights[0]
        self.tabulated = len(embeddings) * first.shape[1] <= TABLE
        if self.tabulated:
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
        """log P of the K best, their ids, read weights and the next state.

        ``output_weight`` and ``output_bias`` are the rows of the output layer to choose among, if not all of them.
        """
        decoder, (rows, beams) = self.decoder, tokens.shape
        before = state["hidden.0"].shape[1]
        chosen = (torch.arange(rows)[:, None] * before + parents).flatten()
        state = {name: field.flatten(0, 1).index_select(0, chosen) for name, field in state.items()}
        inputs = [state["fed"]] if decoder.input_feeding else []
        if self.tabulated:
            gates = functional.embedding(tokens.flatten(), self.table)
        else:
            gates, inputs = self.biases[0], [decoder.embedding(tokens.flatten()), *inputs]
        after: Fields = {}
        for layer, weight in enumerate(self.weights):
            read = torch.cat([*inputs, state[f"hidden.{layer}"]], dim=1)
            gates = torch.addmm(self.biases[layer] if layer else gates, read, weight)
            hidden, cell = lstm_cell(gates, state[f"cell.{layer}"])
            after |= {f"hidden.{layer}": hidden, f"cell.{layer}": cell}
            inputs = [hidden]
        on, features, weights = decoder.attend(hidden.reshape(rows, beams, -1), Memory(**memory))
        if output_weight is None:
            output_weight, output_bias = decoder.output.weight, decoder.output.bias
        log_probs = functional.linear(features.flatten(0, 1), output_weight, output_bias).log_softmax(1)
        best, ids = log_probs.reshape(rows, beams, -1).topk(K, dim=2)
        after = {name: field.reshape(rows, beams, -1) for name, field in after.items()}
        return best, ids, weights, *after.values(), *([on] if decoder.input_feeding else [])


class Align(nn.Module):
    """Read weights (B, T, R) → alignment (B, T, S)."""

    def __init__(self, model: Seq2Seq) -> None:
        super().__init__()
        self.model = model

    def forward(self, memory: Fields, weights: Tensor) -> Tensor:
        return self.model.attention.align(weights, Memory(**memory))


def there(memory: Memory) -> Fields:
    return {name: field for name, field in memory._asdict().items() if field is not None}


def apart(state: State) -> Fields:
    """The state as one field (B, N, H) a layer, so that no step puts layers together only to take them apart again."""
    fields: Fields = {}
    for layer, (hidden, cell) in enumerate(zip(state.hidden.unbind(2), state.cell.unbind(2), strict=True)):
        fields |= {f"hidden.{layer}": hidden, f"cell.{layer}": cell}
    return fields | ({"fed": state.input_feed} if state.input_feed.shape[2] else {})


def encoded(model: Seq2Seq, ids: Tensor, *, trace: bool) -> tuple[Fields, Fields]:
    """Memory and state as ``Encode`` yields them, by the model itself."""
    memory, final = model.encode(ids, ids != PAD, trace=trace)
    return there(memory), apart(model.decoder.init(final, memory))


def needs_trace(model: Seq2Seq) -> bool:
    """Whether alignments cannot be had from the read weights alone."""
    ids = torch.full((1, 2), PAD + 5)
    memory, _ = model.encode(ids, ids != PAD)
    weights = model.attention.read(torch.zeros(1, 1, model.decoder.lstm.hidden_size), memory)[1]
    try:
        model.attention.align(weights, memory)
    except ValueError:
        return True
    return False
