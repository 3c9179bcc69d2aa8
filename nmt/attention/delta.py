"""Linear attention with the delta rule: writing to a key replaces its old value.

Schlag, Irie & Schmidhuber (2021), Linear Transformers Are Secretly Fast Weight Programmers, arXiv 2102.11174.
Yang et al. (2024), Parallelizing Linear Transformers with the Delta Rule over Sequence Length, arXiv 2406.06484: how to
compute a chunk of states in parallel. ``gated``: Yang, Kautz & Hatamizadeh (2024), Gated Delta Networks: Improving
Mamba2 with Delta Rule, arXiv 2412.06464.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from nmt.attention.base import Attention, Memory, Update, project, unit
from nmt.settings.arguments import Size


class DeltaAttention(Attention):
    """Attention with the delta rule: each state writes its recall error.

    M_s = M_{s−1} + β_s k_s (h_s − M_{s−1}ᵀ k_s)ᵀ, read as M_Sᵀ q_t.

    k_s = W_k h_s / ‖W_k h_s‖, q_t likewise, β_s = σ(w_β h_s + b_β). Thus G_s = I − β_s k_s k_sᵀ increases no norm. With
    ``gated`` the memory decays first: M_s = α_s (I − β_s k_s k_sᵀ) M_{s−1} + β_s k_s h_sᵀ, α_s = σ(w_α h_s + b_α).
    """

    signed = True
    exact = True
    states_per_update = 32  # shorter ones take more time for calls than they save

    def __init__(self, *, state_size: Size, query_size: Size, key_size: Size = 128, gated: bool = False) -> None:
        super().__init__()
        self.context_size = state_size
        self.W_k = nn.Linear(state_size, key_size, bias=False)
        self.W_q = nn.Linear(query_size, key_size, bias=False)
        self.beta = nn.Linear(state_size, 1)
        self.alpha = nn.Linear(state_size, 1) if gated else None
        if self.alpha is not None:
            nn.init.constant_(self.alpha.bias, 4.0)  # σ(4) = 0.98: an untrained model remembers a sentence

    def update(self, memory: Memory, states: Tensor, mask: Tensor) -> Update:
        """Return the update of a memory M by the states: M ← a_S M + Σ_s (a_S/a_s) k_s u_sᵀ, with a_s = Π_{i≤s} α_i.

        A triangular system gives the errors u_s: u_s + β_s Σ_{j<s} (a_s/a_j)(k_s·k_j) u_j = β_s (h_s − a_s Mᵀ k_s).
        """
        keys = unit(project(self.W_k, states))
        beta = torch.sigmoid(project(self.beta, states)).masked_fill(~mask[..., None], 0)
        overlaps = beta * (keys @ keys.transpose(1, 2))
        read, left, total = keys, keys, None  # a_s k_s, (a_S/a_s) k_s and a_S
        if self.alpha is not None:
            log_alpha = logsigmoid(project(self.alpha, states)).masked_fill(~mask[..., None], 0)
            log_a, log_total = log_alpha.cumsum(1), log_alpha.sum(1, keepdim=True)
            overlaps = overlaps * (log_a - log_a.transpose(1, 2)).tril().exp()
            read, left, total = log_a.exp() * keys, (log_total - log_a).exp() * keys, log_total.exp()
        inverse = torch.linalg.solve_triangular(
            overlaps.tril(-1), torch.diag_embed(beta[..., 0]), upper=False, unitriangular=True
        )
        weights = left.transpose(1, 2) @ inverse

        def carry(columns: Tensor) -> Tensor:
            decayed = columns if total is None else total * columns
            return decayed - weights @ (read @ columns)  # type: ignore[no-any-return]

        return Update(weights.transpose(1, 2), states, carry)

    def read_weights(self, query: Tensor, memory: Memory) -> Tensor:
        """Return q_t (B, Q, R)."""
        return unit(self.W_q(query)).to(query.dtype)
