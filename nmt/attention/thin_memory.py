"""Located memory with more and smaller slots: r·K slots of D/r numbers instead of K slots of D.

The slots are those of ``located_memory``, after Britz, Guan & Luong (2017), arXiv 1707.00110. They hold projected
states, as the caches of latent attention do: DeepSeek-AI (2024), arXiv 2405.04434.
"""

from __future__ import annotations

from math import ceil, sqrt

import torch
from torch import Tensor, nn

from nmt.attention.base import Memory, Update
from nmt.attention.located_memory import LocatedMemoryAttention, masses
from nmt.settings.arguments import Size


class ThinMemoryAttention(LocatedMemoryAttention):
    """r·K means M_k of D/r numbers: as many numbers as K mean states have, for r times as many stretches.

    M_k = Σ_s α_sk W_v h_s / Σ_s α_sk    α_s = softmax(W_α h_s − γ n² (s/|S| − k/rK)²)    once per source
    c_t = Σ_k β_tk M_k                   β_t = softmax(W_β d_t + M W_c d_t / √(D/r))      once per query

    W_v and W_c map to D/r numbers, rounded up; the rest is as in ``LocatedMemoryAttention``. W_c maps the query and
    not the slots, whose keys would take as much memory again.
    """

    def __init__(self, *, state_size: Size, query_size: Size, slots: Size = 32, split: Size = 4) -> None:
        super().__init__(state_size=state_size, query_size=query_size, slots=slots * split)
        self.context_size = ceil(state_size / split)
        self.W_v = nn.Linear(state_size, self.context_size, bias=False)
        self.W_c = nn.Linear(query_size, self.context_size, bias=False)

    def update(self, memory: Memory, states: Tensor, mask: Tensor) -> Update:
        """Return α (B, S, rK) and W_v h (B, S, D/r)."""
        return super().update(memory, states, mask)._replace(values=self.W_v(states))

    def keys(self, memory: Memory) -> None:
        return None

    def read_weights(self, query: Tensor, memory: Memory) -> Tensor:
        """Return β / Σ_s α_s (B, Q, rK), the weight of the sum of projected states in each slot for each query."""
        mass = masses(memory)[:, None]
        content = self.W_c(query) @ memory.slots.transpose(1, 2) / (mass * sqrt(self.context_size))
        return torch.softmax(self.W_beta(query) + content, dim=2) / mass
