"""The changes of memory attention that ``memory_gap.py`` tries: other reads, other writes, and a decoder."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import Any

import torch
from torch import Tensor, nn

from nmt.attention import AbcAttention, LocatedMemoryAttention, MemoryAttention
from nmt.attention.base import Memory, Update, nonzero
from nmt.attention.located_memory import masses
from nmt.attention.memory import score
from nmt.model.decoder import LSTMDecoder

SIZE = 256  # of keys and hidden layers
SHARPER = 8.0


class NetworkRead(MemoryAttention):
    """Memory attention whose read weights are β = g(W_2 tanh(W_1 d)), so that they can tell more states apart."""

    def __init__(self, *, query_size: int, slots: int = 32, **settings: Any) -> None:
        super().__init__(query_size=query_size, slots=slots, **settings)
        self.W_beta = nn.Sequential(nn.Linear(query_size, SIZE), nn.Tanh(), nn.Linear(SIZE, slots))


class BiasRead(MemoryAttention):
    """Memory attention with a bias for each slot: β = g(W_β d + b)."""

    def __init__(self, *, query_size: int, slots: int = 32, **settings: Any) -> None:
        super().__init__(query_size=query_size, slots=slots, **settings)
        self.W_beta = nn.Linear(query_size, slots)


class NormalisedRead(MemoryAttention):
    """Memory attention whose alignments sum to 1, as those of kernel attention: c = Σ_k β_k C_k / Σ_k β_k Σ_s α_sk."""

    def read_weights(self, query: Tensor, memory: Memory) -> Tensor:
        weights = super().read_weights(query, memory)
        return weights / (weights @ memory.mass[..., None])


class ContentRead(MemoryAttention):
    """Memory attention that also compares the query with what a slot holds, as ABC does.

    β = g(W_β d + K̃ W_q d / √A) with the keys K̃_k = W_k C_k / Σ_s α_sk, computed once per source.
    """

    def __init__(self, *, state_size: int, query_size: int, **settings: Any) -> None:
        super().__init__(state_size=state_size, query_size=query_size, **settings)
        self.W_k = nn.Linear(state_size, SIZE, bias=False)
        self.W_q = nn.Linear(query_size, SIZE, bias=False)

    def keys(self, memory: Memory) -> Tensor:
        keys: Tensor = self.W_k(memory.slots / nonzero(memory.mass)[..., None])
        return keys

    def read_weights(self, query: Tensor, memory: Memory) -> Tensor:
        assert memory.keys is not None
        content = self.W_q(query) @ memory.keys.transpose(1, 2) / sqrt(SIZE)
        return score(self.read_score, self.W_beta(query) + content)


class ContentOnlyRead(ContentRead):
    """``ContentRead`` without W_β: the write of memory attention and the read of ABC."""

    def read_weights(self, query: Tensor, memory: Memory) -> Tensor:
        assert memory.keys is not None
        return score(self.read_score, self.W_q(query) @ memory.keys.transpose(1, 2) / sqrt(SIZE))


class AbcWrite(AbcAttention):
    """ABC's write, a softmax over the source positions, with the read of memory attention: β = σ(W_β d)."""

    def __init__(self, *, query_size: int, slots: int = 32, **settings: Any) -> None:
        super().__init__(query_size=query_size, slots=slots, **settings)
        self.W_beta = nn.Linear(query_size, slots, bias=False)

    def read_weights(self, query: Tensor, memory: Memory) -> Tensor:
        return torch.sigmoid(self.W_beta(query)) / nonzero(memory.mass)[:, None]


class NormalisedContentRead(NormalisedRead, ContentRead):
    """``ContentRead`` whose alignments sum to 1."""


class SharpWrite(MemoryAttention):
    """Memory attention whose write weights start sharp: W_α starts ``SHARPER`` times as large."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        with torch.no_grad():
            self.W_alpha.weight *= SHARPER


class LocatedWrite(MemoryAttention):
    """Memory attention whose slots start as equal stretches of the source, in place of position encodings.

    α_s = f(W_α h_s − γ n² (s/|S| − k/K)²) with n = min(|S|, K), and s and k at the middle of their stretch. With
    K ≥ |S|, each state starts in its own slots. γ is learned.
    """

    start = 1.0  #: of γ

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.gamma = nn.Parameter(torch.full((), self.start))

    def update(self, memory: Memory, states: Tensor, mask: Tensor) -> Update:
        scores = self.W_alpha(states)
        length = mask.sum(1).to(scores.dtype)[:, None, None]
        source = (torch.arange(mask.shape[1], device=mask.device, dtype=scores.dtype) + 0.5)[:, None] / length
        slot = (torch.arange(self.slots, device=mask.device, dtype=scores.dtype) + 0.5) / self.slots
        distance = length.clamp(max=self.slots) * (source - slot)
        return Update(score(self.write_score, scores - self.gamma * distance.square()), states)


class SharpContentRead(SharpWrite, ContentRead):
    """``SharpWrite`` with the read of ``ContentRead``."""


class LocatedContentRead(LocatedWrite, ContentRead):
    """``LocatedWrite`` with the read of ``ContentRead``."""


class SharperLocatedWrite(LocatedWrite):
    """``LocatedWrite`` whose slots start with almost one state each."""

    start = 8.0


class SharperLocatedContentRead(LocatedContentRead):
    """``LocatedContentRead`` whose slots start with almost one state each."""

    start = 8.0


class MeanLocatedRead(LocatedMemoryAttention):
    """Located memory with two projections in its scores: β = softmax(W_β d + M W_c W_q d / √A)."""

    def __init__(self, *, state_size: int, query_size: int, **settings: Any) -> None:
        super().__init__(state_size=state_size, query_size=query_size, **settings)
        self.W_c = nn.Linear(state_size, SIZE, bias=False)
        self.W_q = nn.Linear(query_size, SIZE, bias=False)

    def read_weights(self, query: Tensor, memory: Memory) -> Tensor:
        assert memory.keys is not None
        content = self.W_q(query) @ memory.keys.transpose(1, 2) / sqrt(SIZE)
        return torch.softmax(self.W_beta(query) + content, dim=2) / masses(memory)[:, None]


class GeneralMeanLocatedRead(LocatedMemoryAttention):
    """Located memory whose scores of contents are not divided by √D: Luong's general score."""

    def read_weights(self, query: Tensor, memory: Memory) -> Tensor:
        assert memory.keys is not None
        beta = torch.softmax(self.W_beta(query) + query @ memory.keys.transpose(1, 2), dim=2)
        return beta / masses(memory)[:, None]


class GeneralLocatedRead(GeneralMeanLocatedRead):
    """``GeneralMeanLocatedRead`` that reads the sums of its slots instead of their means."""

    def read_weights(self, query: Tensor, memory: Memory) -> Tensor:
        return super().read_weights(query, memory) * masses(memory)[:, None]


class ClearQueryDecoder(LSTMDecoder):
    """LSTM decoder whose queries have no dropout. Dropout remains before the output layer."""

    def attend(
        self, hidden: Tensor, memory: Memory, combine: Callable[[Tensor], Tensor] | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        context, weights = self.attention.read(hidden, memory)
        hidden = self.dropout(hidden)
        layer = combine or self.combine
        assert layer is not None
        attentional = self.dropout(torch.tanh(layer(torch.cat([context, hidden], dim=2))))
        return attentional, attentional, weights
