"""The changes of memory attention that ``memory_gap.py`` tries: other reads, and another write."""

from __future__ import annotations

from math import sqrt
from typing import Any

import torch
from torch import Tensor, nn

from nmt.attention import MemoryAttention
from nmt.attention.base import Memory, Update, nonzero
from nmt.attention.memory import score

SIZE = 256  # of keys and hidden layers
SHARPER = 8.0


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
