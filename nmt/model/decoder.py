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
from nmt.model.units import GRU, LSTM, MINGRU, SSRU, Parts, Unit
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
    has_layered_attention: bool = False
    """True: ``attention`` is a ``LayeredAttention`` with as many attentions as the decoder has ``layers``."""
    bounded: Collection[str] = ()
    """Paths of the tensors in the state whose numbers always lie in [−1, 1], such as ``layers.0.0``."""

    def init(self, final: Final, memory: Memory) -> Any:
        """Return the initial state of one hypothesis (N = 1) for each sentence."""
        raise NotImplementedError

    def features(self, ids: Tensor, state: Any, memory: Memory) -> tuple[Tensor, Tensor]:
        """Return the inputs (B, T, F) of the output layer, and read weights (B, T, R), from the initial state on.

        A loss can then skip padding in the output layer, whose product is the largest of a training step. A decoder
        that can compute all steps at once overrides this loop.
        """
        steps = []
        for piece in torch.split(ids, 1, dim=1):
            features, state, weights = self.step_features(piece, state, memory)
            steps.append((features, weights))
        features, weights = (torch.cat(parts, dim=1) for parts in zip(*steps, strict=True))
        return features, weights

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
        # Greedy search need not copy the state.
        return map_tensors(lambda field: field if field.shape[1] == index.shape[1] == 1 else field[rows, index], state)


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
        attentional = output_layer == "attentional"
        self.input_feed_size = (hidden_size if attentional else context) if input_feeding else 0
        self.bridge = Bridge(state_size, hidden_size, layers=layers, parts=len(self.unit.bounded))
        recurrent = self.unit.layers(
            embedding.embedding_dim + self.input_feed_size,
            hidden_size,
            num_layers=layers,
            batch_first=True,
            dropout=dropout if layers > 1 else 0.0,
        )
        self.add_module(self.unit.name, recurrent)
        self.combine = nn.Linear(context + hidden_size, hidden_size) if attentional else None
        parts = [part for part, bounded in enumerate(self.unit.bounded) if bounded]
        self.bounded = {f"layers.{layer}.{part}" for layer in range(layers) for part in parts}
        if attentional:  # h̃ is a hyperbolic tangent; contexts, which may be fed instead, have no bound
            self.bounded.add("input_feed")
        self.dropout = Dropout(dropout)
        self.output = new_output(hidden_size if attentional else hidden_size + context, embedding, tied=tied)

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
        if self.input_feeding:
            return super().features(ids, state, memory)
        hidden = self.dropout(self.embedding(ids))
        # One fused call per layer. In a single call for all layers, torch would draw the dropout between them: slowly
        # on a CPU, and on a GPU from a random state that a checkpoint cannot store.
        for layer, (weights, before) in enumerate(zip(self.layers.all_weights, state.layers, strict=True)):
            hidden = drop(hidden, self.layers.dropout, self.training) if layer else hidden
            hidden = self.unit.run(hidden, tuple(part[:, 0] for part in before), weights)
        _, features, read_weights = self.attend(hidden, memory)
        return features, read_weights

    def step_features(self, ids: Tensor, state: State, memory: Memory) -> tuple[Tensor, State, Tensor]:
        """See ``Decoder``."""
        inputs = self.dropout(self.embedding(ids))
        if state.input_feed is not None:
            inputs = torch.cat([inputs, state.input_feed], dim=2)
        layers: list[Parts] = []
        # Products, not a fused call, which prepares for many steps and does not pay off for a single one.
        for weights, before in zip(self.layers.all_weights, state.layers, strict=True):
            inputs = drop(inputs, self.layers.dropout, self.training) if layers else inputs
            layers.append(self.unit.step(inputs, weights, before))
            inputs = self.unit.output(layers[-1][0])
        output, features, read_weights = self.attend(inputs, memory)
        return features, State(tuple(layers), output if self.input_feeding else None), read_weights

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


def new_output(size: int, embedding: nn.Embedding, *, tied: bool) -> nn.Linear:
    """Return an output layer with ``size`` inputs, which shares the weights of the target embedding if it is ``tied``.

    Raises ValueError if their sizes differ.
    """
    output = nn.Linear(size, embedding.num_embeddings)
    if tied:
        if size != embedding.embedding_dim:
            raise ValueError(
                f"decoder.tied=true: the output layer has {size} inputs, but embeddings.size="
                f"{embedding.embedding_dim}; make them equal, or use decoder.tied=false"
            )
        output.weight = embedding.weight
    return output


class Bridge(nn.Module):
    """Initial decoder state tanh(W h + b), with one affine map per decoder layer (Bahdanau et al. 2015, A.2.2).

    Layer k of the decoder starts from layer k of the encoder, or from the encoder's top layer if it has fewer layers.
    """

    def __init__(self, encoder_size: int, size: int, *, layers: int, parts: int) -> None:
        """``parts`` is the number of tensors in the state of a decoder layer."""
        super().__init__()
        self.parts = parts
        self.maps = nn.ModuleList(nn.Linear(encoder_size, parts * size) for _ in range(layers))

    def forward(self, final: Final) -> tuple[Parts, ...]:
        """Return the initial state of each decoder layer, in tensors (B, H)."""
        top = final.hidden.shape[1] - 1
        starts = (affine(final.hidden[:, min(layer, top)]) for layer, affine in enumerate(self.maps))
        return tuple(torch.tanh(start).chunk(self.parts, dim=1) for start in starts)


def map_tensors(function: Callable[[Tensor], Tensor], fields: Any) -> Any:
    """Return a (named) tuple, such as a state or memory, with ``function`` applied to its tensors. None stays None."""
    if isinstance(fields, tuple):
        mapped = [map_tensors(function, field) for field in fields]
        return fields._make(mapped) if hasattr(fields, "_make") else tuple(mapped)
    return fields if fields is None else function(fields)
