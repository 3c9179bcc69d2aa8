"""Layers of the Transformer: normalisation before each part, and a residual connection around it.

Vaswani et al. (2017), Attention Is All You Need, arXiv 1706.03762, §3. The order is that of Xiong et al. (2020), On
Layer Normalization in the Transformer Architecture, arXiv 2002.04745, which trains without a long warm-up.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Any

import torch
from torch import Tensor, nn

from nmt.attention.base import Attention, Memory
from nmt.kernels.dropout import Dropout
from nmt.self_attention.base import SelfAttention, State
from nmt.settings.plugins import Plugin, PluginPoint

SELF_ATTENTION = PluginPoint(SelfAttention, ("nmt.self_attention",), frozenset({"size", "heads", "max_length"}))
Kind = Annotated[Callable[..., SelfAttention], Plugin(f"{__name__}.SELF_ATTENTION")]
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
        self, *, size: int, heads: int, inner_size: int, dropout: float, kind: Callable[..., SelfAttention]
    ) -> None:
        super().__init__()
        self.self_attention_norm = nn.LayerNorm(size)
        self.self_attention = kind(size=size, heads=heads)
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
