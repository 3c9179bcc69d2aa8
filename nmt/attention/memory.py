"""Attention to a memory of K contexts. The cost of a read does not depend on the length of the source.

Britz, Guan & Luong (2017), Efficient Attention using a Fixed-Size Memory Representation, arXiv 1707.00110.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from nmt.attention.base import Attention, Memory, Update
from nmt.settings.arguments import Count, Size

Score = Literal["softmax", "sigmoid"]


class MemoryAttention(Attention):
    """K attention contexts C_k, written while the source is read and mixed again for each query (§3).

    C_k = Σ_s α_sk h_s      α_s = f(W_α h_s)          once per source    (eqs. 7, 8)
    c_t = Σ_k β_tk C_k      β_t = g(W_β q_t)          once per query
                            α_s = f(W_α h_s ∘ l_s)    with position encodings (eqs. 11, 12)

    f is ``write_score`` and g is ``read_score``: a softmax over the K slots (not over time), or a sigmoid.
    ``renormalise`` scales the position encodings of each slot over a sentence: to sum 1 (``sum``, as in the paper) or
    to mean 1 (``mean``). Both need the whole source. To stream, use no position encodings, or ``renormalise`` None,
    which gives a higher loss on long sources. ``max_length`` is the length of the longest training source in pieces,
    ``</s>`` included.
    """

    def __init__(
        self,
        *,
        state_size: Size,
        query_size: Size,
        slots: Size = 32,
        write_score: Score = "softmax",
        read_score: Score = "sigmoid",
        position_encoding: bool = True,
        max_length: Count = 100,
        renormalise: Literal["sum", "mean"] | None = "mean",
    ) -> None:
        super().__init__()
        self.context_size = state_size
        self.streaming = renormalise is None or not position_encoding
        self.slots = slots
        self.write_score = write_score
        self.read_score = read_score
        self.position_encoding = position_encoding
        self.max_length = max_length
        self.renormalise = renormalise
        self.W_alpha = nn.Linear(state_size, slots, bias=False)
        self.W_beta = nn.Linear(query_size, slots, bias=False)

    def update(self, memory: Memory, states: Tensor, mask: Tensor) -> Update:
        """Return α (B, S, K), the weight of each source state in each context."""
        scores = self.W_alpha(states)
        if self.position_encoding:
            scores = scores * self.positions(mask, memory.length, scores.dtype)
        return Update(score(self.write_score, scores), states)

    def read_weights(self, query: Tensor, memory: Memory) -> Tensor:
        """Return β (B, Q, K), the weight of each context for each query. It depends on the query only."""
        return score(self.read_score, self.W_beta(query))

    def positions(self, mask: Tensor, start: Tensor, dtype: torch.dtype) -> Tensor:
        """Return l (B, S, K): early source positions favour the first slots, late positions the last.

        L_ks = (1 − k/K)(1 − s/𝒮) + (k/K)(s/𝒮) with 𝒮 = ``max_length``. k and s count from 1; above 𝒮, s counts as 𝒮.
        """
        exact = torch.promote_types(dtype, torch.float32)  # bfloat16 cannot represent every integer above 256
        s = start[:, None] + torch.arange(1, mask.shape[1] + 1, device=mask.device)
        late = (s.clamp(max=self.max_length).to(exact) / self.max_length)[:, :, None]
        high = self.slot_positions(exact, mask.device)
        encoding = (1 - high) * (1 - late) + high * late
        if self.renormalise is not None:
            # L is positive because k and s count from 1. Only a row of padding has sum 0.
            real = encoding.masked_fill(~mask[:, :, None], 0)
            total = real.sum(1, keepdim=True).clamp(min=torch.finfo(exact).tiny)
            encoding = real / total
            if self.renormalise == "mean":
                encoding = encoding * mask.sum(1)[:, None, None]
        return encoding.to(dtype)

    def slot_positions(self, dtype: torch.dtype, device: torch.device) -> Tensor:
        """Return k/K (K,), the relative position of each slot: at 1, a slot favours the end of the source."""
        return torch.arange(1, self.slots + 1, device=device, dtype=dtype) / self.slots


def score(kind: Score, scores: Tensor) -> Tensor:
    """Return the weights (…, K) of scores (…, K)."""
    return torch.softmax(scores, dim=-1) if kind == "softmax" else torch.sigmoid(scores)
