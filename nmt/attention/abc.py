"""Attention to a bounded memory, whose slots are compared with the query.

Peng et al. (2022), ABC: Attention with Bounded-memory Control, arXiv 2110.02488. Here the queries come from the target.
"""

from __future__ import annotations

from math import sqrt

import torch
from torch import Tensor, nn

from nmt.attention.base import Attention, Memory, Update, nonzero, softmax_over_source
from nmt.settings.arguments import Size


class AbcAttention(Attention):
    """Attention to K slots that are compared with the query.

    c_t = Ṽᵀ softmax(K̃ q_t / √A) with K̃ = Σ_s φ_s k_sᵀ and Ṽ = Σ_s φ_s h_sᵀ, k_s = W_k h_s and q_t = W_q d_t.

    The weights φ_s (K) of each slot are a softmax of W_φ h_s over the source: the paper's ABC_MLP (§4).
    """

    def __init__(self, *, state_size: Size, query_size: Size, slots: Size = 32, key_size: Size = 256) -> None:
        super().__init__()
        self.context_size = state_size
        self.W_phi = nn.Linear(state_size, slots, bias=False)
        self.W_k = nn.Linear(state_size, key_size, bias=False)
        self.W_q = nn.Linear(query_size, key_size, bias=False)

    def update(self, memory: Memory, states: Tensor, mask: Tensor) -> Update:
        return softmax_over_source(self.W_phi(states).to(states.dtype), states, mask, memory)

    def keys(self, memory: Memory) -> Tensor:
        """Return K̃ (B, K, A), the keys of the mean states in the slots."""
        return self.W_k(memory.slots / nonzero(memory.mass)[..., None])  # type: ignore[no-any-return]

    def read_weights(self, query: Tensor, memory: Memory) -> Tensor:
        """Return a softmax over the K slots (B, Q, K), divided by the mass of each."""
        assert memory.keys is not None
        scores = self.W_q(query) @ memory.keys.transpose(1, 2)
        return torch.softmax(scores / sqrt(memory.keys.shape[2]), dim=2) / nonzero(memory.mass)[:, None]
