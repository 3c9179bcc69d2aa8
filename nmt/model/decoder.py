"""The LSTM decoder: teacher forcing over a whole target, or one step for all hypotheses of a sentence."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor, nn

from nmt.attention.base import Attention, Memory
from nmt.bounds import AtLeast, Within
from nmt.kernels.dropout import Dropout
from nmt.kernels.dropout import dropout as drop
from nmt.kernels.products import linear
from nmt.kernels.recurrence import Recurrence, lstm_cell
from nmt.model.bridge import Bridge
from nmt.model.encoder import Final


class State(NamedTuple):
    """What one hypothesis knows of its past; batch first, hypotheses second. The memory is no part of it."""

    hidden: Tensor  # (B, N, L, H)
    cell: Tensor  # (B, N, L, H)
    fed: Tensor  # (B, N, F)  what input feeding hands on; F = 0 without it


class LSTMDecoder(nn.Module):
    """Scores of the next target piece, given the previous ones and a source memory.

    ``output_layer`` is ``attentional``: h̃ = tanh(W_c [c; h]), logits W h̃ + b (Luong et al. 2015, eq. 5), or ``direct``:
    logits W [h; c] + b (Britz et al. 2017, eq. 5). With ``input_feeding`` the previous h̃ (or c) joins the embedding
    (Luong et al. 2015, §3.3); without it nothing in the recurrence depends on attention, so the whole target is one
    fused LSTM call and one read of the memory.
    """

    exportable: ClassVar[bool] = True

    def __init__(
        self,
        *,
        embedding: nn.Embedding,
        attention: Attention,
        encoder_layers: int,
        state_size: int,
        hidden_size: Annotated[int, AtLeast(1)] = 512,
        layers: Annotated[int, AtLeast(1)] = 1,
        dropout: Annotated[float, Within(0, 1)] = 0.2,
        input_feeding: bool = False,
        output_layer: Literal["attentional", "direct"] = "attentional",
        tied: bool = False,
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.attention = attention
        self.input_feeding = input_feeding
        context = attention.context_size
        feature_size = hidden_size if output_layer == "attentional" else hidden_size + context
        fed = hidden_size if output_layer == "attentional" else context
        self.fed_size = fed if input_feeding else 0
        self.bridge = Bridge(
            encoder_size=state_size,
            encoder_layers=encoder_layers,
            decoder_size=hidden_size,
            decoder_layers=layers,
        )
        self.lstm = nn.LSTM(
            embedding.embedding_dim + self.fed_size,
            hidden_size,
            num_layers=layers,
            batch_first=True,
            dropout=dropout if layers > 1 else 0.0,
        )
        self.combine = nn.Linear(context + hidden_size, hidden_size) if output_layer == "attentional" else None
        self.dropout = Dropout(dropout)
        self.output = nn.Linear(feature_size, embedding.num_embeddings)
        if tied:
            if feature_size != embedding.embedding_dim:
                raise ValueError(
                    f"decoder.tied=true: the output layer reads {feature_size} numbers, an embedding has "
                    f"{embedding.embedding_dim}; make decoder.hidden_size and embeddings.size equal"
                )
            self.output.weight = embedding.weight

    def init(self, final: Final, memory: Memory) -> State:
        """The state of one hypothesis (N = 1) that has read nothing yet."""
        hidden, cell = self.bridge(final)
        fed = hidden.new_zeros(hidden.shape[0], 1, self.fed_size)
        return State(hidden[:, None], cell[:, None], fed)

    def forward(self, ids: Tensor, state: State, memory: Memory) -> tuple[Tensor, Tensor]:
        """Logits (B, T, V) and read weights (B, T, R) of a whole target; ids (B, T) starts with BOS."""
        features, weights = self.features(ids, state, memory)
        return self.output(features), weights

    def features(self, ids: Tensor, state: State, memory: Memory) -> tuple[Tensor, Tensor]:
        """What the output layer reads, (B, T, F), so that a loss can leave padding out of the largest product."""
        embedded = self.dropout(self.embedding(ids))
        if self.input_feeding:
            return self._fed_features(embedded, state, memory)
        _, features, weights = self.look(self._hidden(embedded, state), memory)
        return features, weights

    def step(self, ids: Tensor, state: State, memory: Memory) -> tuple[Tensor, State, Tensor]:
        """Logits (B, N, V), the next state and read weights (B, N, R) of one piece for each hypothesis; ids (B, N)."""
        below = torch.cat([self.embedding(ids), state.fed], dim=2)
        after = []
        # One step is two products a layer: what a fused call over many steps prepares for them would be lost on one.
        for layer, (w_ih, w_hh, b_ih, b_hh) in enumerate(self.lstm.all_weights):
            gates = linear(below, w_ih, b_ih) + linear(state.hidden[:, :, layer], w_hh, b_hh)
            after.append(lstm_cell(gates, state.cell[:, :, layer]))
            below = after[-1][0]
        fed, features, weights = self.look(below, memory)
        hidden, cell = (torch.stack(each, dim=2) for each in zip(*after, strict=True))
        return self.output(features), State(hidden, cell, self._feed(fed, state)), weights

    def reorder(self, state: State, index: Tensor) -> State:
        """The state whose hypothesis n continues hypothesis ``index[b, n]``; index (B, N)."""
        rows = torch.arange(index.shape[0], device=index.device)[:, None]
        return State(*(field[rows, index] for field in state))

    def look(
        self, hidden: Tensor, memory: Memory, combine: Callable[[Tensor], Tensor] | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """From LSTM outputs (B, Q, H): what would be fed on, what the output layer reads, and the read weights.

        ``combine`` is the layer of that name, or what multiplies in its stead.
        """
        hidden = self.dropout(hidden)
        context, weights = self.attention.read(hidden, memory)
        combine = combine or self.combine
        if combine is None:
            return context, torch.cat([hidden, self.dropout(context)], dim=2), weights
        attentional = self.dropout(torch.tanh(combine(torch.cat([context, hidden], dim=2))))
        return attentional, attentional, weights

    def _feed(self, fed: Tensor, state: State) -> Tensor:
        return fed if self.input_feeding else state.fed

    def _hidden(self, embedded: Tensor, state: State) -> Tensor:
        """LSTM outputs (B, T, H) of a whole target, embedded (B, T, X): one fused call.

        One a layer in training on a CPU, where between two layers the call would drop out at torch's own, slow, rate.
        """
        start = _layers_first(state)
        if not self.training or embedded.device.type != "cpu":
            hidden: Tensor = self.lstm(embedded, start)[0]
            return hidden
        for layer, weights in enumerate(self.lstm.all_weights):
            if layer:
                embedded = drop(embedded, self.lstm.dropout, self.training)
            here = tuple(each[layer : layer + 1] for each in start)
            embedded = torch.lstm(embedded, here, tuple(weights), True, 1, 0.0, True, False, True)[0]
        return embedded

    def _fed_features(self, embedded: Tensor, state: State, memory: Memory) -> tuple[Tensor, Tensor]:
        """The loop that input feeding forces; everything that does not depend on the step before stays outside."""
        size, steps, width = embedded.shape
        embedded = embedded.transpose(0, 1)
        layers = []
        for layer, (w_ih, w_hh, b_ih, b_hh) in enumerate(self.lstm.all_weights):
            inputs = b_ih + b_hh
            waits: Tensor = w_ih
            if layer == 0:  # all T embeddings in one product; what further layers read has to wait
                meets, waits = torch.split(w_ih, [width, self.fed_size], dim=1)
                inputs = linear(embedded, meets, inputs)
            layers.append(Recurrence(inputs.expand(steps, size, -1), waits, w_hh))
        combine = self.combine and Recurrence(self.combine.bias.expand(steps, size, 1, -1), self.combine.weight)
        hidden, cell = list(state.hidden[:, 0].unbind(1)), list(state.cell[:, 0].unbind(1))
        fed = state.fed[:, 0]
        outputs, reads = [], []
        for step in range(steps):
            below = fed
            for layer, recurrence in enumerate(layers):
                if layer:
                    below = drop(below, self.lstm.dropout, self.training)
                gates = recurrence(step, below, hidden[layer])
                hidden[layer], cell[layer] = lstm_cell(gates, cell[layer])
                below = hidden[layer]
            on, features, weights = self.look(below[:, None], memory, partial(combine, step) if combine else None)
            fed = on[:, 0]
            outputs.append(features)
            reads.append(weights)
        return torch.cat(outputs, dim=1), torch.cat(reads, dim=1)


def _layers_first(state: State) -> tuple[Tensor, Tensor]:
    """Hidden and cell as ``nn.LSTM`` wants them: (L, B·N, H)."""
    hidden = state.hidden.flatten(0, 1).transpose(0, 1).contiguous()
    cell = state.cell.flatten(0, 1).transpose(0, 1).contiguous()
    return hidden, cell
