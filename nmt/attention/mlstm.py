"""Attention to the matrix memory of an LSTM with exponential input gates.

Beck et al. (2024), xLSTM: Extended Long Short-Term Memory, arXiv 2405.04517, §2.3. Here the queries come from the
target.
"""

from __future__ import annotations

from math import sqrt

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from nmt.attention.base import Memory
from nmt.attention.decaying import DecayingAttention, Directions, Update, project
from nmt.bounds import Size


class MlstmAttention(DecayingAttention):
    """M_s = f_s M_{s−1} + i_s k_s h_sᵀ, n_s = f_s n_{s−1} + i_s k_s, read as Mᵀq_t / max(|nᵀq_t|, 1) (eqs. 19 to 25).

    k_s = W_k h_s / √A, q_t = W_q d_t, i_s = exp(w_i h_s + b_i) and f_s = σ(w_f h_s + b_f). The mass of the memory is n.
    All weights are relative to the peak m (B, 1), the running maximum of log i_s as it has decayed, at least 0: the
    paper's stabiliser (appendix A.2).
    """

    signed = True

    def __init__(
        self, *, state_size: Size, query_size: Size, key_size: Size = 128, directions: Directions = "forward"
    ) -> None:
        super().__init__()
        self.write_in(directions)
        self.context_size = state_size
        self.rank = key_size
        self.W_k = nn.Linear(state_size, key_size, bias=False)
        self.W_q = nn.Linear(query_size, key_size, bias=False)
        self.gates = nn.Linear(state_size, 2)  # i and f in one product
        nn.init.constant_(self.gates.bias[1:], 4.0)  # σ(4) = 0.98: an untrained model remembers a sentence

    def read_weights(self, query: Tensor, memory: Memory) -> Tensor:
        """Return q_t (B, Q, R), divided by max(|nᵀq_t|, 1)."""
        assert memory.peak is not None
        with torch.autocast(query.device.type, enabled=False):  # nᵀq_t is a difference of large numbers
            projected = project(self.W_q, query.to(memory.mass.dtype))
            divisor = (projected @ memory.mass[..., None]).abs()
            return (projected / torch.maximum(divisor, (-memory.peak).exp()[:, None])).to(query.dtype)

    def empty(self, states: Tensor, trace: bool) -> Memory:
        memory = super().empty(states, trace)
        return memory._replace(peak=memory.mass[:, :1])

    def update(self, memory: Memory, states: Tensor, mask: Tensor) -> Update:
        assert memory.peak is not None
        log_i, log_f = project(self.gates, states).unbind(2)
        log_f = logsigmoid(log_f).masked_fill(~mask, 0)
        total = log_f.sum(1, keepdim=True)
        log_weights = log_i + total - log_f.cumsum(1)  # (B, S) log (Π_{j>s} f_j) i_s
        log_weights = log_weights.masked_fill(~mask, torch.finfo(log_weights.dtype).min)
        decayed = memory.peak + total
        # The peak needs no gradient: numerator and divisor of a read change by the same factor.
        peak = torch.cat([decayed, log_weights], dim=1).amax(1, keepdim=True).clamp(min=0).detach()
        keys = project(self.W_k, states) / sqrt(self.rank)
        weights = (log_weights - peak).exp()[:, None] * keys.transpose(1, 2)
        return Update(lambda columns: (decayed - peak).exp()[..., None] * columns, weights, states, peak)
