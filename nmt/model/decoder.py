"""Recurrent decoders: teacher forcing over a complete target, or one step for all hypotheses of a sentence."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor, nn

from nmt.attention.base import Attention, Memory
from nmt.kernels.dropout import Dropout
from nmt.kernels.dropout import dropout as drop
from nmt.model.encoder import Final
from nmt.model.units import GRU, LSTM, MINGRU, SSRU, Parts, Unit, torch_state
from nmt.settings.arguments import Layers, Share, Size, check_arguments


class Decoder(nn.Module):
    """Base class of decoders.

    A decoder state is a tuple or named tuple of tensors (B, N, …), which may be nested and hold None. Search, engines
    and graphs reorder and select its rows, and know nothing else about it.
    """

    embedding: nn.Embedding
    attention: Attention
    output: nn.Linear
    hidden_size: int
    bounded: Collection[str] = ()
    """Paths of the tensors in the state whose numbers always lie in [−1, 1], such as ``layers.0.0``."""

    def init(self, final: Final, memory: Memory) -> Any:
        """Return the initial state of one hypothesis (N = 1) for each sentence."""
        raise NotImplementedError

    def features(self, ids: Tensor, state: Any, memory: Memory) -> tuple[Tensor, Tensor]:
        """Return the inputs (B, T, F) of the output layer, and read weights (B, T, R), from the initial state on.

        A loss can then skip padding in the output layer, whose product is the largest of a training step.
        """
        raise NotImplementedError

    def step_features(self, ids: Tensor, state: Any, memory: Memory) -> tuple[Tensor, Any, Tensor]:
        """Return the inputs (B, N, F) of the output layer instead of logits; otherwise like ``step``."""
        raise NotImplementedError

    def forward(self, ids: Tensor, state: Any, memory: Memory) -> tuple[Tensor, Tensor]:
        """Return logits (B, T, V) and read weights (B, T, R) of a complete target; ids (B, T) starts with BOS."""
        features, weights = self.features(ids, state, memory)
        return self.output(features), weights

    def step(self, ids: Tensor, state: Any, memory: Memory) -> tuple[Tensor, Any, Tensor]:
        """Read one piece per hypothesis, ids (B, N). Return logits (B, N, V), next state and read weights (B, N, R)."""
        features, state, weights = self.step_features(ids, state, memory)
        return self.output(features), state, weights

    def reorder(self, state: Any, index: Tensor) -> Any:
        """Return the state whose hypothesis n continues hypothesis ``index[b, n]``; index (B, N)."""
        rows = torch.arange(index.shape[0], device=index.device)[:, None]
        return map_tensors(lambda field: field[rows, index], state)


class State(NamedTuple):
    """Decoder state of N hypotheses for each of B sentences. The memory is not part of it."""

    layers: tuple[Parts, ...]  # for each layer the tensors (B, N, H) of its unit
    input_feed: Tensor | None  # (B, N, F)  output that the next step reads with input feeding


class RecurrentDecoder(Decoder):
    """Recurrent layers that score the next target piece, given the previous pieces and a source memory.

    With ``output_layer="attentional"``, logits are W h̃ + b with h̃ = tanh(W_c [c; h]) (Luong et al. 2015, eq. 5). With
    ``"direct"`` they are W [h; c] + b (Britz et al. 2017, eq. 5). With ``input_feeding`` each step also reads the
    previous h̃ (or c), beside the embedding (Luong et al. 2015, §3.3). Without it the recurrence does not depend on
    attention, so a complete target takes one fused call and one read of the memory.
    """

    unit: ClassVar[Unit]

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
            parts=len(self.unit.bounded),
        )
        recurrent = self.unit.layers(
            embedding.embedding_dim + self.input_feed_size,
            hidden_size,
            num_layers=layers,
            batch_first=True,
            dropout=dropout if layers > 1 else 0.0,
        )
        self.add_module(self.unit.name, recurrent)
        self.combine = nn.Linear(context + hidden_size, hidden_size) if output_layer == "attentional" else None
        parts = [part for part, bounded in enumerate(self.unit.bounded) if bounded]
        self.bounded = {f"layers.{layer}.{part}" for layer in range(layers) for part in parts}
        if self.combine is not None:  # h̃ is a hyperbolic tangent; contexts, which may be fed instead, have no bound
            self.bounded.add("input_feed")
        self.dropout = Dropout(dropout)
        self.output = nn.Linear(feature_size, embedding.num_embeddings)
        if tied:
            tie_output(self.output, embedding)

    @property
    def layers(self) -> Any:
        """The recurrent layers."""
        return getattr(self, self.unit.name)

    def init(self, final: Final, memory: Memory) -> State:
        """See ``Decoder``."""
        layers = self.bridge(final)
        hidden = layers[0][0]
        feed = hidden.new_zeros(hidden.shape[0], 1, self.input_feed_size) if self.input_feeding else None
        return State(map_tensors(lambda part: part[:, None], layers), feed)

    def features(self, ids: Tensor, state: State, memory: Memory) -> tuple[Tensor, Tensor]:
        """See ``Decoder``."""
        embedded = self.dropout(self.embedding(ids))
        if self.input_feeding:
            steps = []
            for inputs in embedded.split(1, dim=1):
                features, state, weights = self._step(inputs, state, memory)
                steps.append((features, weights))
            features, weights = (torch.cat(parts, dim=1) for parts in zip(*steps, strict=True))
            return features, weights
        _, features, weights = self.attend(self._hidden_states(embedded, state), memory)
        return features, weights

    def step_features(self, ids: Tensor, state: State, memory: Memory) -> tuple[Tensor, State, Tensor]:
        """See ``Decoder``."""
        return self._step(self.embedding(ids), state, memory)

    def _step(self, inputs: Tensor, state: State, memory: Memory) -> tuple[Tensor, State, Tensor]:
        """Return the results of ``step_features`` for embedded pieces (B, N, X)."""
        if state.input_feed is not None:
            inputs = torch.cat([inputs, state.input_feed], dim=2)
        layers: list[Parts] = []
        # Products, not a fused call, which prepares for many steps and does not pay off for a single one.
        for parts, weights in zip(state.layers, self.layers.all_weights, strict=True):
            inputs = drop(inputs, self.layers.dropout, self.training) if layers else inputs
            layers.append(self.unit.step(inputs, weights, parts))
            inputs = self.unit.output(layers[-1][0])
        output, features, weights = self.attend(inputs, memory)
        return features, State(tuple(layers), output if self.input_feeding else None), weights

    def attend(self, hidden: Tensor, memory: Memory) -> tuple[Tensor, Tensor, Tensor]:
        """Read the memory with the outputs (B, Q, H) of the top layer.

        Return the output for input feeding (h̃ or c), the inputs of the output layer, and the read weights.
        """
        hidden = self.dropout(hidden)
        context, weights = self.attention.read(hidden, memory)
        if self.combine is None:
            return context, torch.cat([hidden, self.dropout(context)], dim=2), weights
        attentional = self.dropout(torch.tanh(self.combine(torch.cat([context, hidden], dim=2))))
        return attentional, attentional, weights

    def _hidden_states(self, embedded: Tensor, state: State) -> Tensor:
        """Return the outputs (B, T, H) of the top layer for a complete target, embedded (B, T, X), without feeding.

        In training, each layer is one fused call. In a single call, torch would draw the dropout between layers: slowly
        on a CPU, and on a GPU from a random state that a checkpoint cannot store.
        """
        if not self.training and isinstance(self.layers, nn.RNNBase):
            # The layout of torch: (L, B, H).
            start = [torch.cat(parts, dim=1).transpose(0, 1).contiguous() for parts in zip(*state.layers, strict=True)]
            hidden: Tensor = self.layers(embedded, torch_state(start))[0]
            return hidden
        for layer, weights in enumerate(self.layers.all_weights):
            if layer:
                embedded = drop(embedded, self.layers.dropout, self.training)
            before = tuple(part[:, 0] for part in state.layers[layer])
            embedded = self.unit.run(embedded, before, weights)
        return embedded


class LSTMDecoder(RecurrentDecoder):
    """Decoder with long short-term memory (Hochreiter & Schmidhuber 1997)."""

    unit = LSTM


class GRUDecoder(RecurrentDecoder):
    """Decoder with gated recurrent units (Cho et al. 2014)."""

    unit = GRU


class SSRUDecoder(RecurrentDecoder):
    """Decoder with simpler simple recurrent units (Kim et al. 2019): gates that read the input only, outputs ReLU(c).

    The paper gives the candidate W x_t no bias. Here it has one.
    """

    unit = SSRU


class MinGRUDecoder(RecurrentDecoder):
    """Decoder with minimal gated recurrent units (Feng et al. 2024), in the form without logarithms."""

    unit = MINGRU


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

    def __init__(
        self, *, encoder_size: int, encoder_layers: int, decoder_size: int, decoder_layers: int, parts: int = 2
    ) -> None:
        """``parts`` is the number of tensors in the state of a decoder layer."""
        super().__init__()
        self.parts = parts
        self.maps = nn.ModuleList(nn.Linear(encoder_size, parts * decoder_size) for _ in range(decoder_layers))
        self.encoder_layers = [min(layer, encoder_layers - 1) for layer in range(decoder_layers)]

    def forward(self, final: Final) -> tuple[Parts, ...]:
        """Return the initial state of each decoder layer, in tensors (B, H)."""
        pairs = zip(self.encoder_layers, self.maps, strict=True)
        return tuple(torch.tanh(affine(final.hidden[:, layer])).chunk(self.parts, dim=1) for layer, affine in pairs)


def map_tensors(function: Callable[[Tensor], Tensor], fields: Any) -> Any:
    """Return a (named) tuple, such as a state or memory, with ``function`` applied to its tensors. None stays None."""
    if isinstance(fields, tuple):
        mapped = [map_tensors(function, field) for field in fields]
        return fields._make(mapped) if hasattr(fields, "_make") else tuple(mapped)
    return fields if fields is None else function(fields)
