"""Linear attention with the delta rule: writing to a key replaces its old value.

Schlag, Irie & Schmidhuber (2021), Linear Transformers Are Secretly Fast Weight Programmers, arXiv 2102.11174.
Yang et al. (2024), Parallelizing Linear Transformers with the Delta Rule over Sequence Length, arXiv 2406.06484: how to
compute a chunk of states in parallel.
"""

from __future__ import annotations

from math import isqrt

import torch
from torch import Tensor, nn

from nmt.attention.base import Memory
from nmt.attention.decaying import DecayingAttention, Update, project, unit
from nmt.settings.arguments import Size


class DeltaAttention(DecayingAttention):
    """Attention with the delta rule: each state writes its recall error.

    M_s = M_{s−1} + β_s k_s (h_s − M_{s−1}ᵀ k_s)ᵀ, read as M_Sᵀ q_t.

    k_s = W_k h_s / ‖W_k h_s‖, q_t likewise, β_s = σ(w_β h_s + b_β). Thus G_s = I − β_s k_s k_sᵀ increases no norm.
    """

    signed = True
    sequential = True

    def __init__(self, *, state_size: Size, query_size: Size, key_size: Size = 128) -> None:
        super().__init__()
        self.context_size = state_size
        self.rank = key_size
        self.W_k = nn.Linear(state_size, key_size, bias=False)
        self.W_q = nn.Linear(query_size, key_size, bias=False)
        self.beta = nn.Linear(state_size, 1)

    def read_weights(self, query: Tensor, memory: Memory) -> Tensor:
        """Return q_t (B, Q, R)."""
        return unit(self.W_q(query)).to(query.dtype)

    def append(self, memory: Memory, states: Tensor, mask: Tensor) -> Memory:
        """Extend the memory by chunks of √S states, so that training keeps √S memories.

        A chunk has at least 32 states: shorter ones take more time for calls than they save.
        """
        size = max(32, isqrt(states.shape[1]) + 1)
        for chunk in zip(torch.split(states, size, dim=1), torch.split(mask, size, dim=1), strict=True):
            memory = super().append(memory, *chunk)
        return memory

    def update(self, memory: Memory, states: Tensor, mask: Tensor) -> Update:
        """Return the update of ``memory`` by the states: M ← M + Σ_s k_s u_sᵀ.

        A triangular system gives the errors u_s: u_s + β_s Σ_{j<s} (k_s·k_j) u_j = β_s (h_s − Mᵀ k_s).
        """
        keys, inverse = self.solve(states, mask)
        weights = keys.transpose(1, 2) @ inverse
        return Update(lambda columns: columns - weights @ (keys @ columns), weights, states)

    def solve(self, states: Tensor, mask: Tensor, decays: Tensor | float = 1.0) -> tuple[Tensor, Tensor]:
        """Return the keys k_s (B, S, A) and a matrix (B, S, S): its product with h_s − Mᵀ k_s is u_s (see ``update``).

        Each term k_s·k_j of the system is multiplied by its ``decays`` (B, S, S).
        """
        keys = unit(project(self.W_k, states))
        beta = torch.sigmoid(project(self.beta, states)).masked_fill(~mask[..., None], 0)
        overlaps = (beta * decays * (keys @ keys.transpose(1, 2))).tril(-1)  # β_s (k_s·k_j) for j < s
        inverse = torch.linalg.solve_triangular(
            overlaps, torch.diag_embed(beta[..., 0]), upper=False, unitriangular=True
        )
        return keys, inverse
