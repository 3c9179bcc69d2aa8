"""Linear attention with the gated delta rule: the memory decays before a state replaces the old value of its key.

Yang, Kautz & Hatamizadeh (2024), Gated Delta Networks: Improving Mamba2 with Delta Rule, arXiv 2412.06464.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from nmt.attention.base import Memory
from nmt.attention.decaying import Update, project
from nmt.attention.delta import DeltaAttention
from nmt.settings.arguments import Size


class GatedDeltaAttention(DeltaAttention):
    """Attention with the gated delta rule: the memory decays before a state replaces the old value of its key.

    M_s = α_s (I − β_s k_s k_sᵀ) M_{s−1} + β_s k_s h_sᵀ (eq. 10), read as M_Sᵀ q_t.

    Keys, queries and β_s are those of ``DeltaAttention``, and α_s = σ(w_α h_s + b_α).
    """

    def __init__(self, *, state_size: Size, query_size: Size, key_size: Size = 128) -> None:
        super().__init__(state_size=state_size, query_size=query_size, key_size=key_size)
        self.alpha = nn.Linear(state_size, 1)
        nn.init.constant_(self.alpha.bias, 4.0)  # σ(4) = 0.98: an untrained model remembers a sentence

    def update(self, memory: Memory, states: Tensor, mask: Tensor) -> Update:
        """Return the update of ``memory`` by the states.

        With a_s = Π_{i≤s} α_i, the errors u_s solve a triangular system:

        u_s + β_s Σ_{j<s} (a_s/a_j) (k_s·k_j) u_j = β_s (h_s − a_s Mᵀ k_s)
        """
        log_alpha = logsigmoid(project(self.alpha, states)).masked_fill(~mask[..., None], 0)
        log_a = log_alpha.cumsum(1)
        log_total = log_alpha.sum(1, keepdim=True)
        decays = (log_a - log_a.transpose(1, 2)).tril().exp()  # a_s/a_j for j ≤ s
        keys, inverse = self.solve(states, mask, decays)
        weights = ((log_total - log_a).exp() * keys).transpose(1, 2) @ inverse
        decayed_keys = log_a.exp() * keys
        return Update(lambda columns: log_total.exp() * columns - weights @ (decayed_keys @ columns), weights, states)
