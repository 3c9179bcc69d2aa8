"""The Transformer: its layers have normalisation before each part, and a residual connection around it.

Vaswani et al. (2017), Attention Is All You Need, arXiv 1706.03762, §3. The order is that of Xiong et al. (2020), On
Layer Normalization in the Transformer Architecture, arXiv 2002.04745, which trains without a long warm-up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Annotated, Any, NamedTuple

import torch
from torch import Tensor, nn

from nmt.attention.base import Attention, Memory, clear_padding
from nmt.attention.layers import LayeredAttention
from nmt.kernels.dropout import Dropout
from nmt.model.decoder import Decoder, new_output
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


class EncoderLayer(nn.Module):
    """Self-attention over the source, then a feed-forward network, with dropout of both results (§5.4).

    The network is W₂ max(0, W₁ x + b₁) + b₂ (§3.3).
    """

    def __init__(
        self, *, size: int, heads: int, inner_size: int, dropout: float, self_attention: SelfAttentionBuilder
    ) -> None:
        super().__init__()
        self.self_attention_norm = nn.LayerNorm(size)
        self.self_attention = self_attention(size=size, heads=heads)
        self.feed_forward_norm = nn.LayerNorm(size)
        self.feed_forward = nn.Sequential(nn.Linear(size, inner_size), nn.ReLU(), nn.Linear(inner_size, size))
        self.dropout = Dropout(dropout)

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        """Return the next states (B, S, E), for mask (B, S), True where real."""
        return self.transform(states + self.dropout(self.self_attention(self.self_attention_norm(states), mask)))

    def transform(self, states: Tensor) -> Tensor:
        """Return the states (…, E) after the feed-forward network."""
        output: Tensor = self.dropout(self.feed_forward(self.feed_forward_norm(states)))
        return states + output


class DecoderLayer(EncoderLayer):
    """Causal self-attention, a read of the source memory, then a feed-forward network.

    ``W_o`` projects the contexts of this layer's attention (§3.2.2).
    """

    def __init__(self, *, context_size: int, size: int, **settings: Any) -> None:
        super().__init__(size=size, **settings)
        self.read_norm = nn.LayerNorm(size)
        self.W_o = nn.Linear(context_size, size, bias=False)

    def forward(  # type: ignore[override]
        self, states: Tensor, before: State | None, memory: Memory, attention: Attention
    ) -> tuple[Tensor, State, Tensor]:
        """Return the next states, the state of the self-attention and the read weights.

        Without a state ``before``, the states (B, T, E) are those of a complete target, and the state is empty. With
        one, they are those (B, N, E) of one more piece of each hypothesis.
        """
        normalised = self.self_attention_norm(states)
        after: State = ()
        if before is None:
            attended = self.self_attention(normalised)
        else:
            attended, after = self.self_attention.step(normalised, before)
        states = states + self.dropout(attended)
        context, weights = attention.read(self.read_norm(states), memory)
        states = states + self.dropout(self.W_o(context))
        return self.transform(states), after, weights


class Stack(nn.Module):
    """The modules that both sides have: positioned inputs, layers, and a normalisation after the last one."""

    def build(
        self,
        group: str,
        layer: type[EncoderLayer],
        *,
        embedding_size: int,
        size: int,
        layers: int,
        heads: int,
        dropout: float,
        **settings: Any,
    ) -> None:
        """Create the modules. Raises ValueError, with keys of the ``group``, for sizes that do not fit each other."""
        if size % heads:
            raise ValueError(f"{group}.heads={heads}: must divide {group}.hidden_size={size}; change one of them")
        self.dropout = Dropout(dropout)
        self.inputs = PositionedEmbeddings(embedding_size=embedding_size, size=size)
        try:
            blocks = [layer(size=size, heads=heads, dropout=dropout, **settings) for _ in range(layers)]
        except ValueError as error:
            raise ValueError(str(error).replace("attention.", f"{group}.self_attention.", 1)) from None
        self.blocks = nn.ModuleList(blocks)
        self.norm = nn.LayerNorm(size)


class TransformerEncoder(Stack):
    """Layers of self-attention over the source (Vaswani et al. 2017), with states (B, S, E), E = hidden_size.

    ``self_attention`` builds the self-attention of a layer: a class of ``nmt.self_attention``, or a function. The final
    state is the mean of the states.
    """

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
        self.state_size = hidden_size
        self.build(
            "encoder",
            EncoderLayer,
            embedding_size=embedding_size,
            size=hidden_size,
            layers=layers,
            heads=heads,
            dropout=dropout,
            inner_size=feedforward_size,
            self_attention=self_attention,
        )

    def forward(self, embedded: Tensor, mask: Tensor) -> tuple[Tensor, Final]:
        """Return the states (B, S, E) and their mean, for embedded (B, S, X) and mask (B, S), True where real."""
        states = self.inputs(embedded, torch.arange(mask.shape[1], device=mask.device))
        for block in self.blocks:
            states = block(states, mask)
        states = clear_padding(self.norm(states), mask)
        count = mask.sum(1).clamp(min=1)[:, None].to(states.dtype)
        return states, Final((states.sum(1) / count)[:, None], None)


class TransformerState(NamedTuple):
    """Decoder state of N hypotheses for each of B sentences. The memory is not part of it."""

    position: Tensor  # (B, N)  number of pieces read so far, int64
    layers: tuple[State, ...]  # tensors (B, N, …): a cache that grows, or sums of constant size


class TransformerDecoder(Stack, Decoder):
    """Layers of causal self-attention, each of which also reads the source (Vaswani et al. 2017).

    Each layer has an attention of its own, and so a memory of its own, into which the source is written once.
    ``self_attention`` builds the self-attention of a layer: a class of
    ``nmt.self_attention``, or a function. The decoder sees the source only through attention, not through the encoder's
    final state.
    """

    attention: LayeredAttention
    has_layered_attention = True

    @check_arguments
    def __init__(
        self,
        *,
        embedding: nn.Embedding,
        attention: LayeredAttention,
        hidden_size: Size = 256,
        layers: Layers = 3,
        heads: Size = 4,
        feedforward_size: Size = 1024,
        dropout: Share = 0.1,
        self_attention: SelfAttentionBuilder = SoftmaxSelfAttention,
        tied: bool = False,
    ) -> None:
        super().__init__()
        if not attention.context_size:
            name = type(attention.layers[0]).__name__
            raise ValueError(
                f"attention={name}: has no contexts, through which decoder=transformer sees the source; choose another"
            )
        self.embedding = embedding
        self.attention = attention
        self.hidden_size = hidden_size
        self.build(
            "decoder",
            DecoderLayer,
            context_size=attention.context_size,
            embedding_size=embedding.embedding_dim,
            size=hidden_size,
            layers=layers,
            heads=heads,
            dropout=dropout,
            inner_size=feedforward_size,
            self_attention=self_attention,
        )
        kind: Any = type(self.blocks[0].self_attention)
        if kind.causal is SelfAttention.causal:
            raise ValueError(
                f"decoder.self_attention={kind.__name__}: cannot hide later positions; choose another for the "
                "decoder, such as linear"
            )
        self.output = new_output(hidden_size, embedding, tied=tied)

    def init(self, final: Final, memory: Memory) -> TransformerState:
        """See ``Decoder``."""
        position = torch.zeros(final.hidden.shape[0], 1, dtype=torch.int64, device=final.hidden.device)
        blocks: Any = self.blocks
        return TransformerState(position, tuple(block.self_attention.start(final.hidden) for block in blocks))

    def features(self, ids: Tensor, state: TransformerState, memory: Memory) -> tuple[Tensor, Tensor]:
        """See ``Decoder``."""
        position = torch.arange(ids.shape[1], device=ids.device)
        features, _, weights = self._run(ids, position, [None] * len(self.blocks), memory)
        return features, weights

    def step_features(
        self, ids: Tensor, state: TransformerState, memory: Memory
    ) -> tuple[Tensor, TransformerState, Tensor]:
        """See ``Decoder``."""
        features, layers, weights = self._run(ids, state.position, state.layers, memory)
        return features, TransformerState(state.position + 1, layers), weights

    def _run(
        self, ids: Tensor, position: Tensor, before: Sequence[State | None], memory: Memory
    ) -> tuple[Tensor, tuple[State, ...], Tensor]:
        """Return the inputs of the output layer, the next state of each layer, and the read weights of all layers."""
        states = self.dropout(self.inputs(self.embedding(ids), position))
        after, reads = [], []
        layers = zip(self.blocks, before, self.attention.memories(memory), self.attention.layers, strict=True)
        for block, *layer in layers:
            states, next_state, weights = block(states, *layer)
            after.append(next_state)
            reads.append(weights)
        return self.norm(states), tuple(after), torch.cat(reads, dim=2)
