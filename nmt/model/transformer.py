"""The Transformer: its layers have normalisation before each part, and a residual connection around it.

Vaswani et al. (2017), Attention Is All You Need, arXiv 1706.03762, §3. The order is that of Xiong et al. (2020), On
Layer Normalization in the Transformer Architecture, arXiv 2002.04745, which trains without a long warm-up.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from nmt.attention.base import Attention, Memory, clear_padding
from nmt.kernels.dropout import Dropout
from nmt.model.decoder import Decoder, tie_output
from nmt.model.encoder import Final
from nmt.self_attention import SoftmaxSelfAttention
from nmt.self_attention.base import SelfAttention, State
from nmt.settings.arguments import Layers, Share, Size, check_arguments
from nmt.settings.plugins import Plugin, PluginPoint

SELF_ATTENTION = PluginPoint(SelfAttention, ("nmt.self_attention",), frozenset({"size", "heads", "max_length"}))
SelfAttentionBuilder = Annotated[Callable[..., SelfAttention], Plugin(f"{__name__}.SELF_ATTENTION")]
"""Builds the self-attention of a layer, given ``size`` and ``heads``."""


def sinusoids(position: Tensor, size: int) -> Tensor:
    """Return the encoding (…, size) of each position (…), counted from 0 (§3.5): sines first, then cosines."""
    half = (size + 1) // 2
    rates = torch.exp(torch.arange(half, device=position.device) * (-math.log(10_000) / half))
    angles = position[..., None] * rates
    return torch.cat([angles.sin(), angles.cos()], dim=-1)[..., :size]


class PositionedEmbeddings(nn.Module):
    """Input of a Transformer: embeddings e of size X plus the encoding p of their positions, √X e + p.

    The embeddings are projected to ``size`` if it is not X.
    """

    def __init__(self, *, embedding_size: int, size: int) -> None:
        super().__init__()
        self.scale = math.sqrt(embedding_size)
        self.size = size
        self.project = nn.Linear(embedding_size, size, bias=False) if size != embedding_size else None

    def forward(self, embedded: Tensor, position: Tensor) -> Tensor:
        """Return the inputs (…, E) of the first layer, for embedded (…, X) and position (…)."""
        embedded = self.scale * embedded
        states = embedded if self.project is None else self.project(embedded)
        return states + sinusoids(position, self.size).to(states.dtype)


class FeedForward(nn.Sequential):
    """The feed-forward network of a layer: W₂ max(0, W₁ x + b₁) + b₂ (§3.3)."""

    def __init__(self, *, size: int, inner_size: int) -> None:
        super().__init__(nn.Linear(size, inner_size), nn.ReLU(), nn.Linear(inner_size, size))


class EncoderLayer(nn.Module):
    """Self-attention over the source, then a feed-forward network, with dropout of both results (§5.4)."""

    def __init__(
        self, *, size: int, heads: int, inner_size: int, dropout: float, self_attention: SelfAttentionBuilder
    ) -> None:
        super().__init__()
        self.self_attention_norm = nn.LayerNorm(size)
        self.self_attention = self_attention(size=size, heads=heads)
        self.feed_forward_norm = nn.LayerNorm(size)
        self.feed_forward = FeedForward(size=size, inner_size=inner_size)
        self.dropout = Dropout(dropout)

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        """Return the next states (B, S, E), for mask (B, S), True where real."""
        return self.transform(states + self.dropout(self.self_attention(self.self_attention_norm(states), mask)))

    def transform(self, states: Tensor) -> Tensor:
        """Return the states (…, E) after the feed-forward network."""
        output: Tensor = self.dropout(self.feed_forward(self.feed_forward_norm(states)))
        return states + output


def new_layers(group: str, count: int, new_layer: Callable[[], EncoderLayer]) -> nn.ModuleList:
    """Return ``count`` new layers of the part ``group``, which errors of its self-attention name."""
    try:
        return nn.ModuleList(new_layer() for _ in range(count))
    except ValueError as error:
        raise ValueError(str(error).replace("attention.", f"{group}.self_attention.", 1)) from None


class DecoderLayer(EncoderLayer):
    """Causal self-attention, a read of the source memory, then a feed-forward network.

    All layers read the same memory with the same ``Attention``. ``W_query`` and ``W_context`` are this layer's part:
    for a score that is a product, they make up for separate keys and values in each layer.
    """

    def __init__(self, *, context_size: int, size: int, **settings: Any) -> None:
        super().__init__(size=size, **settings)
        self.read_norm = nn.LayerNorm(size)
        self.W_query = nn.Linear(size, size, bias=False)
        self.W_context = nn.Linear(context_size, size, bias=False)

    def complete(self, states: Tensor, memory: Memory, attention: Attention) -> tuple[Tensor, Tensor]:
        """Return the next states (B, T, E) of a complete target, and the read weights (B, T, R)."""
        return self._run(states, self.self_attention, memory, attention)

    def step(self, states: Tensor, state: State, memory: Memory, attention: Attention) -> tuple[Tensor, State, Tensor]:
        """Return the next states (B, N, E) of one more piece, its state, and the read weights (B, N, R)."""
        after = state

        def attend(normalised: Tensor) -> Tensor:
            nonlocal after
            output, after = self.self_attention.step(normalised, state)
            return output

        states, weights = self._run(states, attend, memory, attention)
        return states, after, weights

    def _run(
        self, states: Tensor, attend: Callable[[Tensor], Tensor], memory: Memory, attention: Attention
    ) -> tuple[Tensor, Tensor]:
        states = states + self.dropout(attend(self.self_attention_norm(states)))
        context, weights = attention.read(self.W_query(self.read_norm(states)), memory)
        states = states + self.dropout(self.W_context(context))
        return self.transform(states), weights


class TransformerEncoder(nn.Module):
    """Layers of self-attention over the source (Vaswani et al. 2017), with states (B, S, E), E = hidden_size.

    ``self_attention`` builds the self-attention of a layer: a class of ``nmt.self_attention``, or a function. The final
    state is the mean of the states.
    """

    final_states: ClassVar[int] = 1

    @check_arguments
    def __init__(
        self,
        *,
        embedding_size: Size,
        hidden_size: Size = 256,
        layers: Layers = 3,
        heads: Size = 4,
        feedforward_size: Size = 1024,
        dropout: Share = 0.1,
        self_attention: SelfAttentionBuilder = SoftmaxSelfAttention,
    ) -> None:
        super().__init__()
        require_heads("encoder", hidden_size, heads)
        self.state_size = hidden_size
        self.dropout = Dropout(dropout)
        self.inputs = PositionedEmbeddings(embedding_size=embedding_size, size=hidden_size)
        new_layer = partial(
            EncoderLayer,
            size=hidden_size,
            heads=heads,
            inner_size=feedforward_size,
            dropout=dropout,
            self_attention=self_attention,
        )
        self.blocks = new_layers("encoder", layers, new_layer)
        self.norm = nn.LayerNorm(hidden_size)

    def forward(self, embedded: Tensor, mask: Tensor) -> tuple[Tensor, Final]:
        """Return the states (B, S, E) and their mean, for embedded (B, S, X) and mask (B, S), True where real."""
        states = self.inputs(embedded, torch.arange(mask.shape[1], device=mask.device))
        for block in self.blocks:
            states = block(states, mask)
        states = clear_padding(self.norm(states), mask)
        count = mask.sum(1).clamp(min=1)[:, None].to(states.dtype)
        return states, Final((states.sum(1) / count)[:, None], None)


def require_heads(group: str, size: int, heads: int) -> None:
    """Raise ValueError unless the states of the part ``group`` can be divided into heads."""
    if size % heads:
        raise ValueError(f"{group}.heads={heads}: must divide {group}.hidden_size={size}; change one of them")


class TransformerState(NamedTuple):
    """Decoder state of N hypotheses for each of B sentences. The memory is not part of it."""

    position: Tensor  # (B, N)  number of pieces read so far, int64
    layers: tuple[State, ...]  # tensors (B, N, …): a cache that grows, or sums of constant size


class TransformerDecoder(Decoder):
    """Layers of causal self-attention, each of which also reads the source memory (Vaswani et al. 2017).

    The source is written into one memory, once, and every layer reads it. The read weights are the mean over the
    layers, and so is the alignment. ``self_attention`` builds the self-attention of a layer: a class of
    ``nmt.self_attention``, or a function. The decoder sees the source only through attention, not through the encoder's
    final state.
    """

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
        self_attention: SelfAttentionBuilder = SoftmaxSelfAttention,
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
            self_attention=self_attention,
        )
        self.blocks = new_layers("decoder", layers, new_layer)
        for block in self._layers():
            kind = type(block.self_attention)
            if kind.causal is SelfAttention.causal:
                raise ValueError(
                    f"decoder.self_attention={kind.__name__}: cannot hide later positions; choose another for the "
                    "decoder, such as linear"
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
