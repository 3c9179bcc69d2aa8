"""Multiplicative attention and its concat form.

Luong, Pham & Manning (2015), Effective Approaches to Attention-based Neural Machine Translation,
arXiv 1508.04025.
"""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

from nmt.attention.base import Memory, SourceAttention
from nmt.bounds import Size
from nmt.kernels.additive import additive_scores


class LuongAttention(SourceAttention):
    """Global attention (§3.1): a softmax over s of one of three scores (eq. 8).

    dot      q_tᵀ h_s                       states and queries of equal size
    general  q_tᵀ W_a h_s
    concat   v_aᵀ tanh(W_a [q_t; h_s])      W_a maps to the size of the query
    """

    def __init__(
        self, *, state_size: Size, query_size: Size, score: Literal["dot", "general", "concat"] = "general"
    ) -> None:
        super().__init__()
        if score == "dot" and state_size != query_size:
            raise ValueError(
                f"attention.score=dot: compares encoder states of size {state_size} with decoder states of "
                f"size {query_size}; make both hidden_size equal, or use attention.score=general"
            )
        self.context_size = state_size
        self.score = score
        if score != "dot":
            self.W_a_state = nn.Linear(state_size, query_size, bias=False)
        if score == "concat":
            self.W_a_query = nn.Linear(query_size, query_size, bias=False)
            self.v_a = nn.Linear(query_size, 1, bias=False)

    def keys(self, states: Tensor) -> Tensor | None:
        """Return the source states after their part of W_a (B, S, H)."""
        return None if self.score == "dot" else self.W_a_state(states)

    def scores(self, query: Tensor, memory: Memory) -> Tensor:
        keys = memory.slots if memory.keys is None else memory.keys
        if self.score != "concat":
            return query @ keys.transpose(1, 2)
        return additive_scores(self.v_a, self.W_a_query(query), keys)
