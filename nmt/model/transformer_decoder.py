"""The Transformer decoder: teacher forcing over a complete target, or one step for all hypotheses of a sentence."""

from __future__ import annotations

from functools import partial
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from nmt.attention.base import Attention, Memory
from nmt.kernels.dropout import Dropout
from nmt.model.decoder import Decoder, tie_output
from nmt.model.encoder import Final
from nmt.model.transformer_encoder import require_heads
from nmt.model.transformer_layers import DecoderLayer, Kind, PositionedEmbeddings, new_layers
from nmt.self_attention import SoftmaxSelfAttention
from nmt.self_attention.base import State as LayerState
from nmt.settings.arguments import check_arguments
from nmt.settings.bounds import Layers, Share, Size


class TransformerState(NamedTuple):
    """Decoder state of N hypotheses for each of B sentences. The memory is not part of it."""

    position: Tensor  # (B, N)  number of pieces read so far, int64
    layers: tuple[LayerState, ...]  # tensors (B, N, …): a cache that grows, or sums of constant size


class TransformerDecoder(Decoder):
    """Layers of causal self-attention, each of which also reads the source memory (Vaswani et al. 2017).

    The source is written into one memory, once, and every layer reads it. The read weights are the mean over the
    layers, and so is the alignment. ``self_attention`` builds the self-attention of a layer: a class of
    ``nmt.self_attention``, or a function. The decoder sees the source only through attention, not through the encoder's
    final state.
    """

    exportable: ClassVar[bool] = True
    """Whether ``nmt.inference.onnx`` can export this class. A subclass has to declare it again."""

    @check_arguments
    def __init__(
        self,
        *,
        embedding: nn.Embedding,
        attention: Attention,
        hidden_size: Size = 256,
        layers: Layers = 3,
        heads: Size = 4,
        feedforward_size: Size = 1024,
        dropout: Share = 0.1,
        self_attention: Kind = SoftmaxSelfAttention,
        tied: bool = False,
    ) -> None:
        super().__init__()
        require_heads("decoder", hidden_size, heads)
        if not attention.context_size:
            raise ValueError(
                f"attention={type(attention).__name__}: has no contexts, through which decoder=transformer sees the "
                "source; choose another attention"
            )
        self.embedding = embedding
        self.attention = attention
        self.hidden_size = hidden_size
        self.dropout = Dropout(dropout)
        self.inputs = PositionedEmbeddings(embedding_size=embedding.embedding_dim, size=hidden_size)
        new_layer = partial(
            DecoderLayer,
            context_size=attention.context_size,
            size=hidden_size,
            heads=heads,
            inner_size=feedforward_size,
            dropout=dropout,
            kind=self_attention,
        )
        self.blocks = new_layers("decoder", layers, new_layer)
        for block in self._layers():
            if problem := block.self_attention.not_causal:
                kind = type(block.self_attention).__name__
                raise ValueError(
                    f"decoder.self_attention={kind}: {problem}; choose another for the decoder, such as linear"
                )
        self.norm = nn.LayerNorm(hidden_size)
        self.output = nn.Linear(hidden_size, embedding.num_embeddings)
        if tied:
            tie_output(self.output, embedding)

    def init(self, final: Final, memory: Memory) -> TransformerState:
        """See ``Decoder``."""
        position = torch.zeros(final.hidden.shape[0], 1, dtype=torch.int64, device=final.hidden.device)
        return TransformerState(position, tuple(block.self_attention.start(final.hidden) for block in self._layers()))

    def features(self, ids: Tensor, state: TransformerState, memory: Memory) -> tuple[Tensor, Tensor]:
        """See ``Decoder``."""
        states = self._inputs(ids, torch.arange(ids.shape[1], device=ids.device))
        reads = []
        for block in self._layers():
            states, weights = block.complete(states, memory, self.attention)
            reads.append(weights)
        return self.norm(states), _mean(reads)

    def step_features(
        self, ids: Tensor, state: TransformerState, memory: Memory
    ) -> tuple[Tensor, TransformerState, Tensor]:
        """See ``Decoder``."""
        states = self._inputs(ids, state.position)
        reads = []
        after = []
        for block, before in zip(self._layers(), state.layers, strict=True):
            states, layer_state, weights = block.step(states, before, memory, self.attention)
            reads.append(weights)
            after.append(layer_state)
        return self.norm(states), TransformerState(state.position + 1, tuple(after)), _mean(reads)

    def reorder(self, state: TransformerState, index: Tensor) -> TransformerState:
        """See ``Decoder``."""
        if index.shape[1] == state.position.shape[1] == 1:  # greedy search need not copy its cache
            return state
        reordered: TransformerState = super().reorder(state, index)
        return reordered

    def _inputs(self, ids: Tensor, position: Tensor) -> Tensor:
        states: Tensor = self.dropout(self.inputs(self.embedding(ids), position))
        return states

    def _layers(self) -> list[DecoderLayer]:
        return list(self.blocks)  # type: ignore[arg-type]


def _mean(weights: list[Tensor]) -> Tensor:
    return torch.stack(weights).mean(0)
