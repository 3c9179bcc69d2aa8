"""Attention to a bounded memory, whose slots are compared with the query.

Peng et al. (2022), ABC: Attention with Bounded-memory Control, arXiv 2110.02488. Here the queries come from the target.
"""

from __future__ import annotations

from math import sqrt

import torch
from torch import Tensor, nn

from nmt.attention.base import Attention, Memory, clear_padding
from nmt.attention.source_softmax import nonzero, to_common_peak, write_softmax
from nmt.settings.arguments import Size


class AbcAttention(Attention):
    """Attention to K slots that are compared with the query.

    c_t = Ṽᵀ softmax(K̃ q_t / √A) with K̃ = Σ_s φ_s k_sᵀ and Ṽ = Σ_s φ_s h_sᵀ, k_s = W_k h_s and q_t = W_q d_t.

    The K slots are filled as in ``MemoryAttention``, but a query is compared with what they hold. The weights φ_s (K)
    of a slot sum to 1 over the source: φ_s = α_s / Σ_j α_j with α_s = exp(W_φ h_s), the paper's ABC_MLP (§4).
    """

    def __init__(
        self,
        *,
        state_size: Size,
        query_size: Size,
        slots: Size = 32,
        key_size: Size = 256,
    ) -> None:
        super().__init__()
        self.context_size = state_size
        self.W_phi = nn.Linear(state_size, slots, bias=False)
        self.W_k = nn.Linear(state_size, key_size, bias=False)
        self.W_q = nn.Linear(query_size, key_size, bias=False)

    def write_part(self, states: Tensor, mask: Tensor, start: Tensor, trace: bool) -> Memory:
        states = clear_padding(states, mask)
        return self._with_keys(write_softmax(self.W_phi(states).to(states.dtype), states, mask, trace))

    def merge_parts(self, memory: Memory, part: Memory) -> Memory:
        return self._with_keys(super().merge_parts(*to_common_peak(memory, part)))

    def read_weights(self, query: Tensor, memory: Memory) -> Tensor:
        """Return a softmax over the K slots (B, Q, K), divided by Σ_j α_j of each slot."""
        assert memory.keys is not None
        scores = self.W_q(query) @ memory.keys.transpose(1, 2)
        return torch.softmax(scores / sqrt(memory.keys.shape[2]), dim=2) / nonzero(memory.mass)[:, None]

    def _with_keys(self, memory: Memory) -> Memory:
        """Return the memory with K̃ (B, K, A), the keys of the mean states in its slots."""
        return memory._replace(keys=self.W_k(memory.slots / nonzero(memory.mass)[..., None]))
