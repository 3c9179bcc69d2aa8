"""The LSTM decoder: teacher forcing over a complete target, or one step for all hypotheses of a sentence."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ClassVar, Literal, NamedTuple

import torch
from torch import Tensor, nn

from nmt.attention.base import Attention, Memory
from nmt.kernels import enabled
from nmt.kernels.dropout import Dropout
from nmt.kernels.dropout import dropout as drop
from nmt.kernels.products import linear
from nmt.kernels.recurrence import Recurrence, lstm_cell
from nmt.model.encoder import Final
from nmt.settings.arguments import check_arguments
from nmt.settings.bounds import Layers, Share, Size


class State(NamedTuple):
    """Decoder state of N hypotheses for each of B sentences. The memory is not part of it."""

    hidden: Tensor  # (B, N, L, H)
    cell: Tensor  # (B, N, L, H)
    input_feed: Tensor  # (B, N, F)  output that the next step reads with input feeding; F = 0 without it


class LSTMDecoder(nn.Module):
    """LSTM that scores the next target piece, given the previous pieces and a source memory.

    With ``output_layer="attentional"``, logits are W h̃ + b with h̃ = tanh(W_c [c; h]) (Luong et al. 2015, eq. 5). With
    ``"direct"`` they are W [h; c] + b (Britz et al. 2017, eq. 5). With ``input_feeding`` each step also reads the
    previous h̃ (or c), beside the embedding (Luong et al. 2015, §3.3). Without it the recurrence does not depend on
    attention, so a complete target takes one fused LSTM call and one read of the memory.
    """

    exportable: ClassVar[bool] = True
    """Whether ``nmt.inference.onnx`` can export this class. A subclass has to declare it again."""

    @check_arguments
    def __init__(
        self,
        *,
        embedding: nn.Embedding,
        attention: Attention,
        encoder_layers: Layers,
        state_size: Size,
        hidden_size: Size = 512,
        layers: Layers = 1,
        dropout: Share = 0.2,
        input_feeding: bool = False,
        output_layer: Literal["attentional", "direct"] = "attentional",
        tied: bool = False,
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.attention = attention
        self.input_feeding = input_feeding
        self.hidden_size = hidden_size
        context = attention.context_size
        feature_size = hidden_size if output_layer == "attentional" else hidden_size + context
        output_size = hidden_size if output_layer == "attentional" else context
        self.input_feed_size = output_size if input_feeding else 0
        self.bridge = Bridge(
            encoder_size=state_size,
            encoder_layers=encoder_layers,
            decoder_size=hidden_size,
            decoder_layers=layers,
        )
        self.lstm = nn.LSTM(
            embedding.embedding_dim + self.input_feed_size,
            hidden_size,
            num_layers=layers,
            batch_first=True,
            dropout=dropout if layers > 1 else 0.0,
        )
        self.combine = nn.Linear(context + hidden_size, hidden_size) if output_layer == "attentional" else None
        self.dropout = Dropout(dropout)
        self.output = nn.Linear(feature_size, embedding.num_embeddings)
        if tied:
            tie_output(self.output, embedding)

    def init(self, final: Final, memory: Memory) -> State:
        """Return the initial state of one hypothesis (N = 1) for each sentence."""
        hidden, cell = self.bridge(final)
        input_feed = hidden.new_zeros(hidden.shape[0], 1, self.input_feed_size)
        return State(hidden[:, None], cell[:, None], input_feed)

    def forward(self, ids: Tensor, state: State, memory: Memory) -> tuple[Tensor, Tensor]:
        """Return logits (B, T, V) and read weights (B, T, R) of a complete target; ids (B, T) starts with BOS."""
        features, weights = self.features(ids, state, memory)
        return self.output(features), weights

    def features(self, ids: Tensor, state: State, memory: Memory) -> tuple[Tensor, Tensor]:
        """Return the inputs (B, T, F) of the output layer, and read weights (B, T, R).

        A loss can then skip padding in the output layer, whose product is the largest of a training step.
        """
        embedded = self.dropout(self.embedding(ids))
        if self.input_feeding:
            return self._features_with_input_feeding(embedded, state, memory)
        _, features, weights = self.attend(self._hidden_states(embedded, state), memory)
        return features, weights

    def step(self, ids: Tensor, state: State, memory: Memory) -> tuple[Tensor, State, Tensor]:
        """Read one piece per hypothesis, ids (B, N). Return logits (B, N, V), next state and read weights (B, N, R)."""
        inputs = torch.cat([self.embedding(ids), state.input_feed], dim=2)
        states = []
        # Two products per layer. A fused LSTM call prepares for many steps, which does not pay off for a single one.
        for layer, (w_ih, w_hh, b_ih, b_hh) in enumerate(self.lstm.all_weights):
            gates = linear(inputs, w_ih, b_ih) + linear(state.hidden[:, :, layer], w_hh, b_hh)
            states.append(lstm_cell(gates, state.cell[:, :, layer]))
            inputs = states[-1][0]
        output, features, weights = self.attend(inputs, memory)
        hidden, cell = (torch.stack(layers, dim=2) for layers in zip(*states, strict=True))
        input_feed = output if self.input_feeding else state.input_feed
        return self.output(features), State(hidden, cell, input_feed), weights

    def reorder(self, state: State, index: Tensor) -> State:
        """Return the state whose hypothesis n continues hypothesis ``index[b, n]``; index (B, N)."""
        rows = torch.arange(index.shape[0], device=index.device)[:, None]
        return State(*(field[rows, index] for field in state))

    def attend(
        self, hidden: Tensor, memory: Memory, combine: Callable[[Tensor], Tensor] | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Read the memory with LSTM outputs (B, Q, H).

        Return the output for input feeding (h̃ or c), the inputs of the output layer, and the read weights.
        ``combine`` replaces the layer of that name.
        """
        hidden = self.dropout(hidden)
        context, weights = self.attention.read(hidden, memory)
        combine = combine or self.combine
        if combine is None:
            return context, torch.cat([hidden, self.dropout(context)], dim=2), weights
        attentional = self.dropout(torch.tanh(combine(torch.cat([context, hidden], dim=2))))
        return attentional, attentional, weights

    def _hidden_states(self, embedded: Tensor, state: State) -> Tensor:
        """Return the LSTM outputs (B, T, H) of a complete target, embedded (B, T, X), without input feeding.

        In training on a CPU, each layer is one fused call. A single call would use torch's slow dropout between layers.
        """
        start = _layers_first(state)
        if not enabled() or not self.training or embedded.device.type != "cpu":
            hidden: Tensor = self.lstm(embedded, start)[0]
            return hidden
        for layer, weights in enumerate(self.lstm.all_weights):
            if layer:
                embedded = drop(embedded, self.lstm.dropout, self.training)
            layer_start = tuple(part[layer : layer + 1] for part in start)
            embedded = torch.lstm(embedded, layer_start, tuple(weights), True, 1, 0.0, True, False, True)[0]
        return embedded

    def _features_with_input_feeding(self, embedded: Tensor, state: State, memory: Memory) -> tuple[Tensor, Tensor]:
        """Compute ``features`` step by step, as input feeding requires."""
        steps = embedded.shape[1]
        layers, combine = self._recurrences(embedded)
        hidden = list(state.hidden[:, 0].unbind(1))
        cell = list(state.cell[:, 0].unbind(1))
        input_feed = state.input_feed[:, 0]
        outputs = []
        reads = []
        for step in range(steps):
            inputs = input_feed
            for layer, recurrence in enumerate(layers):
                if layer:
                    inputs = drop(inputs, self.lstm.dropout, self.training)
                gates = recurrence(step, inputs, hidden[layer])
                hidden[layer], cell[layer] = lstm_cell(gates, cell[layer])
                inputs = hidden[layer]
            combine_step = partial(combine, step) if combine else None
            output, features, weights = self.attend(inputs[:, None], memory, combine_step)
            input_feed = output[:, 0]
            outputs.append(features)
            reads.append(weights)
        return torch.cat(outputs, dim=1), torch.cat(reads, dim=1)

    def _recurrences(self, embedded: Tensor) -> tuple[list[Recurrence], Recurrence | None]:
        """Return a recurrence for each LSTM layer, and one for ``combine``, over the steps of embedded (B, T, X)."""
        size, steps, width = embedded.shape
        layers = []
        for layer, (w_ih, w_hh, b_ih, b_hh) in enumerate(self.lstm.all_weights):
            inputs = b_ih + b_hh
            weight: Tensor = w_ih
            if layer == 0:  # the embeddings do not depend on earlier steps: one product for all of them
                embedding_weight, weight = torch.split(w_ih, [width, self.input_feed_size], dim=1)
                inputs = linear(embedded.transpose(0, 1), embedding_weight, inputs)
            layers.append(Recurrence(inputs.expand(steps, size, -1), weight, w_hh))
        if self.combine is None:
            return layers, None
        return layers, Recurrence(self.combine.bias.expand(steps, size, 1, -1), self.combine.weight)


def _layers_first(state: State) -> tuple[Tensor, Tensor]:
    """Return hidden and cell state in the layout of ``nn.LSTM``: (L, B·N, H)."""
    hidden = state.hidden.flatten(0, 1).transpose(0, 1).contiguous()
    cell = state.cell.flatten(0, 1).transpose(0, 1).contiguous()
    return hidden, cell


def tie_output(output: nn.Linear, embedding: nn.Embedding) -> None:
    """Let the output layer share the weights of the target embedding. Raises ValueError if their sizes differ."""
    if output.in_features != embedding.embedding_dim:
        raise ValueError(
            f"decoder.tied=true: the output layer has {output.in_features} inputs, but embeddings.size="
            f"{embedding.embedding_dim}; make them equal, or use decoder.tied=false"
        )
    output.weight = embedding.weight


class Bridge(nn.Module):
    """Initial decoder state tanh(W h + b), with one affine map per decoder layer (Bahdanau et al. 2015, A.2.2).

    Layer k of the decoder starts from layer k of the encoder, or from the encoder's top layer if it has fewer layers.
    """

    def __init__(self, *, encoder_size: int, encoder_layers: int, decoder_size: int, decoder_layers: int) -> None:
        super().__init__()
        self.maps = nn.ModuleList(nn.Linear(encoder_size, 2 * decoder_size) for _ in range(decoder_layers))
        self.encoder_layers = [min(layer, encoder_layers - 1) for layer in range(decoder_layers)]

    def forward(self, final: Final) -> tuple[Tensor, Tensor]:
        """Return the initial hidden and cell state, each (B, L, H)."""
        pairs = zip(self.encoder_layers, self.maps, strict=True)
        starts = [torch.tanh(affine(final.hidden[:, layer])) for layer, affine in pairs]
        hidden, cell = torch.stack(starts, dim=1).chunk(2, dim=2)
        return hidden, cell
