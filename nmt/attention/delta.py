"""Linear attention that corrects itself: a key's old value is replaced, not added to.

Schlag, Irie & Schmidhuber (2021), Linear Transformers Are Secretly Fast Weight Programmers, arXiv 2102.11174. All
states of a stretch at once: Yang et al. (2024), Parallelizing Linear Transformers with the Delta Rule over Sequence
Length, arXiv 2406.06484.
"""

from __future__ import annotations

from math import isqrt
from typing import Annotated

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from nmt.attention.base import Memory
from nmt.attention.decaying import DecayingAttention, Fade
from nmt.bounds import AtLeast


class DeltaAttention(DecayingAttention):
    """M_s = M_{s−1} + β_s k_s (h_s − M_{s−1}ᵀ k_s)ᵀ, read as M_Sᵀ q_t: what is written is the error of the recall.

    k_s = W_k h_s / ‖W_k h_s‖, q_t likewise, β_s = σ(w_β h_s + b_β). So G_s = I − β_s k_s k_sᵀ never lengthens anything.
    """

    signed = True
    sequential = True

    def __init__(self, *, state_size: int, query_size: int, key_size: Annotated[int, AtLeast(1)] = 64) -> None:
        super().__init__()
        self.context_size = state_size
        self.rank = key_size
        self.W_k = nn.Linear(state_size, key_size, bias=False)
        self.W_q = nn.Linear(query_size, key_size, bias=False)
        self.beta = nn.Linear(state_size, 1)

    def read_weights(self, query: Tensor, memory: Memory) -> Tensor:
        """q_t (B, Q, R)."""
        return normalize(self.W_q(query), dim=2)

    def append(self, memory: Memory, states: Tensor, mask: Tensor) -> Memory:
        """In stretches of √S states, so that training keeps √S memories."""
        size = isqrt(states.shape[1]) + 1
        for stretch in zip(torch.split(states, size, dim=1), torch.split(mask, size, dim=1), strict=True):
            memory = super().append(memory, *stretch)
        return memory

    def update(self, memory: Memory, states: Tensor, mask: Tensor) -> tuple[Fade, Tensor, Tensor]:
        """All errors u of a stretch solve a triangular system: u_s + β_s Σ_{j<s} (k_s·k_j) u_j = β_s (h_s − Mᵀ k_s)."""
        keys = normalize(self.W_k(states), dim=2)
        beta = torch.sigmoid(self.beta(states)).masked_fill(~mask[..., None], 0)
        earlier = beta * (keys @ keys.transpose(1, 2))  # below the diagonal; on it, the system has ones
        right = torch.diag_embed(beta[..., 0])
        solved = torch.linalg.solve_triangular(earlier.tril(-1), right, upper=False, unitriangular=True)
        weights = keys.transpose(1, 2) @ solved
        return lambda written: written - weights @ (keys @ written), weights, states
