"""Multiplicative attention and its concat form.

Luong, Pham & Manning (2015), Effective Approaches to Attention-based Neural Machine Translation,
arXiv 1508.04025. ``scaled_dot``: Vaswani et al. (2017), Attention Is All You Need, arXiv 1706.03762, §3.2.1.
"""

from __future__ import annotations

from math import sqrt
from typing import Literal

from torch import Tensor, nn

from nmt.attention.base import Memory, SourceAttention
from nmt.kernels.additive import additive_scores
from nmt.settings.arguments import Size


class LuongAttention(SourceAttention):
    """Global attention (§3.1): a softmax over s of one of four scores (eq. 8 and, with √E, Vaswani et al., eq. 1).

    dot         q_tᵀ h_s                       states and queries of equal size
    scaled_dot  q_tᵀ h_s / √E                  likewise
    general     q_tᵀ W_a h_s
    concat      v_aᵀ tanh(W_a [q_t; h_s])      W_a maps to the size of the query
    """

    def __init__(
        self,
        *,
        state_size: Size,
        query_size: Size,
        score: Literal["dot", "scaled_dot", "general", "concat"] = "general",
    ) -> None:
        super().__init__()
        has_weights = score in ("general", "concat")
        if not has_weights and state_size != query_size:
            raise ValueError(
                f"attention.score={score}: compares encoder states of size {state_size} with decoder states of "
                f"size {query_size}; make both hidden_size equal, or use attention.score=general"
            )
        self.context_size = state_size
        self.score = score
        if has_weights:
            self.W_a_state = nn.Linear(state_size, query_size, bias=False)
        if score == "concat":
            self.W_a_query = nn.Linear(query_size, query_size, bias=False)
            self.v_a = nn.Linear(query_size, 1, bias=False)

    def keys(self, memory: Memory) -> Tensor | None:
        """Return the source states after their part of W_a (B, S, H)."""
        return self.W_a_state(memory.slots) if self.score in ("general", "concat") else None

    def scores(self, query: Tensor, memory: Memory) -> Tensor:
        keys = memory.slots if memory.keys is None else memory.keys
        if self.score == "concat":
            return additive_scores(self.v_a, self.W_a_query(query), keys)
        scores = query @ keys.transpose(1, 2)
        return scores / sqrt(query.shape[2]) if self.score == "scaled_dot" else scores
