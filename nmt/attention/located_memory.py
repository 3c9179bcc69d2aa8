"""Memory attention whose slots start as stretches of the source, and are compared with the query.

Britz, Guan & Luong (2017), arXiv 1707.00110, whose score of a slot is added to that of Luong et al. (2015), arXiv
1508.04025, divided by √D as by Vaswani et al. (2017), arXiv 1706.03762.
"""

from __future__ import annotations

from math import sqrt

import torch
from torch import Tensor, nn

from nmt.attention.base import Attention, Memory, Update
from nmt.settings.arguments import Size

SHARPNESS = 8.0  # of γ at the start: with K ≥ |S|, each slot then holds almost one source state


class LocatedMemoryAttention(Attention):
    """K mean states M_k, one per stretch of the source, which a query scores by their index and their content.

    M_k = Σ_s α_sk h_s / Σ_s α_sk    α_s = softmax(W_α h_s − γ n² (s/|S| − k/K)²)    once per source
    c_t = Σ_k β_tk M_k               β_t = softmax(W_β d_t + M W_c d_t / √D)         once per query

    Both softmaxes are over the K slots. s and k are the middles of a state and of a stretch, n = min(|S|, K), and γ is
    learned. D is the size of d_t. The keys W_β + M W_c / √D are computed once per source.
    """

    def __init__(self, *, state_size: Size, query_size: Size, slots: Size = 32) -> None:
        super().__init__()
        self.context_size = state_size
        self.streaming = False  # a stretch depends on the length of the source
        self.W_alpha = nn.Linear(state_size, slots, bias=False)
        self.W_beta = nn.Linear(query_size, slots, bias=False)
        self.W_c = nn.Linear(state_size, query_size, bias=False)
        self.gamma = nn.Parameter(torch.full((), SHARPNESS))

    def update(self, memory: Memory, states: Tensor, mask: Tensor) -> Update:
        """Return α_sk / Σ_s α_sk (B, S, K), the weight of each source state in each mean state."""
        scores = self.W_alpha(states)
        shares = torch.log_softmax(scores - self.gamma * self.distances(mask, scores.dtype), dim=2)
        real = shares.masked_fill(~mask[..., None], torch.finfo(shares.dtype).min)
        return Update(torch.softmax(real, dim=1), states)

    def distances(self, mask: Tensor, dtype: torch.dtype) -> Tensor:
        """Return n² (s/|S| − k/K)² (B, S, K), the squared distance of each source state from each stretch."""
        exact = torch.promote_types(dtype, torch.float32)  # bfloat16 cannot represent every integer above 256
        slots = self.W_alpha.out_features
        length = mask.sum(1).clamp(min=1).to(exact)[:, None, None]
        state = (torch.arange(mask.shape[1], device=mask.device, dtype=exact) + 0.5)[:, None] / length
        stretch = (torch.arange(slots, device=mask.device, dtype=exact) + 0.5) / slots
        return (length.clamp(max=slots) * (state - stretch)).square().to(dtype)

    def keys(self, memory: Memory) -> Tensor:
        """Return W_β + M W_c / √D (B, K, H)."""
        return self.W_beta.weight + self.W_c(memory.slots) / sqrt(self.W_beta.in_features)  # type: ignore[no-any-return]

    def read_weights(self, query: Tensor, memory: Memory) -> Tensor:
        """Return β (B, Q, K), the weight of each mean state for each query."""
        assert memory.keys is not None
        return torch.softmax(query @ memory.keys.transpose(1, 2), dim=2)
