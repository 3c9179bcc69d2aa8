"""Memory attention whose slots are stretches of the source, and are compared with the query.

Britz, Guan & Luong (2017), arXiv 1707.00110, whose score of a slot is added to that of Vaswani et al. (2017), arXiv
1706.03762. Slots hold projected states, as the caches of latent attention do: DeepSeek-AI (2024), arXiv 2405.04434.
"""

from __future__ import annotations

from math import ceil, sqrt

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from nmt.attention.base import Attention, Memory, Update
from nmt.settings.arguments import Size

LONGEST = 40  # stretches have at most 2 to this power states


class StretchMemoryAttention(Attention):
    """rK slots of D/r numbers: means of neighbouring states, which a query scores by their index and their content.

    M_k = Σ_s α_sk W_v h_s / Σ_s α_sk    α_sk = σ(w · h_s) if state s is in stretch k, otherwise 0    once per source
    c_t = Σ_k β_tk M_k                   β_t = softmax(W_β d_t + M W_c d_t / √(D/r))                  once per query

    A source of up to rK states has a stretch for each. Then neighbouring stretches merge, from the first to the last:
    if each has two states, the next ones will have four. So a source can arrive part by part. W_v and W_c map to D/r
    numbers, rounded up: the memory has as many numbers as K states, in r times as many places.
    """

    def __init__(self, *, state_size: Size, query_size: Size, slots: Size = 32, split: Size = 4) -> None:
        super().__init__()
        self.slots = slots * split
        self.context_size = ceil(state_size / split)
        self.W_v = nn.Linear(state_size, self.context_size, bias=False)
        self.w = nn.Linear(state_size, 1)
        self.W_beta = nn.Linear(query_size, self.slots, bias=False)
        self.W_c = nn.Linear(query_size, self.context_size, bias=False)

    def update(self, memory: Memory, states: Tensor, mask: Tensor) -> Update:
        """Return α (B, S, rK) and W_v h; the slots before are merged as the new length asks for."""
        length = (memory.length + mask.sum(1))[:, None]
        positions = memory.length[:, None] + torch.arange(states.shape[1], device=states.device)
        weights = torch.sigmoid(self.w(states)) * self.in_stretch(positions, length).to(states.dtype)

        def merge(columns: Tensor) -> Tensor:
            firsts = self.first_states(memory.length[:, None])
            return self.in_stretch(firsts, length).to(columns.dtype).transpose(1, 2) @ columns

        return Update(weights, self.W_v(states), merge)

    def lengths(self, length: Tensor) -> tuple[Tensor, Tensor]:
        """Return the number ℓ of states in a stretch of a source of this length, and how many stretches have 2ℓ."""
        powers = 2 ** torch.arange(LONGEST, device=length.device)
        size = powers[((powers * self.slots <= length).sum(-1, keepdim=True) - 1).clamp(min=0)]
        return size, ((length + size - 1) // size - self.slots).clamp(min=0)

    def in_stretch(self, positions: Tensor, length: Tensor) -> Tensor:
        """Return whether these positions (B, n) of a source of this length (B, 1) are in each stretch (B, n, rK)."""
        size, longer = self.lengths(length)
        behind = positions - 2 * size * longer
        stretch = torch.where(behind < 0, positions // (2 * size), longer + behind // size)
        return one_hot(stretch.clamp(max=self.slots - 1), self.slots)

    def first_states(self, length: Tensor) -> Tensor:
        """Return the position (B, rK) of the first state of each stretch of a source of this length (B, 1)."""
        size, longer = self.lengths(length)
        stretch = torch.arange(self.slots, device=length.device)
        return size * (stretch + torch.minimum(stretch, longer))

    def read_weights(self, query: Tensor, memory: Memory) -> Tensor:
        """Return β / Σ_s α_s (B, Q, rK), the weight of the sum of projected states in each slot for each query."""
        is_used = memory.mass > 0
        mass = memory.mass.where(is_used, 1)[:, None]
        content = self.W_c(query) @ memory.slots.transpose(1, 2) / (mass * sqrt(self.context_size))
        scores = (self.W_beta(query) + content).masked_fill(~is_used[:, None], torch.finfo(content.dtype).min)
        return torch.softmax(scores, dim=2) / mass
