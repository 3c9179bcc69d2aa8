"""Attention to a window around a predicted source position.

Luong, Pham & Manning (2015), Effective Approaches to Attention-based Neural Machine Translation,
arXiv 1508.04025, §3.2: local attention with predictive alignment, local-p.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from nmt.attention.base import Memory, require_queries
from nmt.attention.luong import LuongAttention
from nmt.kernels.products import linear
from nmt.settings.arguments import Size


class LocalAttention(LuongAttention):
    """Attention to a window: a softmax over the positions s in [p_t − w, p_t + w], times a Gaussian around p_t.

    p_t = S · σ(v_pᵀ tanh(W_p q_t))                              (eq. 9), S is the length of the source
    a_t(s) = softmax(scores)_s · exp(−(s − p_t)² / 2σ²)          (eq. 10), σ = w/2, s counts from 1

    Only the states in the window are scored and mixed, so the cost of a read does not depend on the length of the
    source. The weights of a query sum to less than 1, because the Gaussian follows the softmax.
    """

    def __init__(
        self,
        *,
        state_size: Size,
        query_size: Size,
        score: Literal["dot", "general", "concat"] = "general",
        window: Size = 10,
    ) -> None:
        super().__init__(state_size=state_size, query_size=query_size, score=score)
        self.window = window
        self.W_p = nn.Linear(query_size, query_size, bias=False)
        self.v_p = nn.Linear(query_size, 1, bias=False)

    def centre(self, query: Tensor, memory: Memory) -> Tensor:
        """Return p_t (B, Q), between 0 and S."""
        # In bfloat16, a share is off by up to 1/256, which is four positions of a source of 1,000 states.
        exact = torch.promote_types(query.dtype, torch.float32)
        with torch.autocast(query.device.type, enabled=False):
            hidden = torch.tanh(linear(query.to(exact), self.W_p.weight.to(exact)))
            share = torch.sigmoid(linear(hidden, self.v_p.weight.to(exact))).squeeze(2)
        return share * memory.length[:, None].to(exact)

    def read(self, query: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        require_queries(query)
        rows, queries, _ = query.shape
        centre = self.centre(query, memory)
        first = (centre.detach() - self.window).ceil().long()
        s = first[:, :, None] + torch.arange(2 * self.window + 1, device=query.device)  # (B, Q, 2w + 1)
        distance = s - centre[:, :, None]
        inside = (s >= 1) & (s <= memory.length[:, None, None]) & (distance <= self.window)
        index = (s - 1).clamp(min=0).minimum((memory.length - 1).clamp(min=0)[:, None, None])

        # Each window is a small memory that one query reads.
        window = memory._replace(
            slots=gather_rows(memory.slots, index),
            keys=None if memory.keys is None else gather_rows(memory.keys, index),
            mask=inside.flatten(0, 1),
        )
        weights = self.read_weights(query.flatten(0, 1)[:, None], window).reshape(s.shape)
        gauss = torch.exp(-(distance**2) / (2 * (self.window / 2) ** 2)).to(weights.dtype)
        weights = (weights * gauss).masked_fill(~inside, 0)
        context = weights.flatten(0, 1)[:, None] @ window.slots
        # Positions outside the source got the index of its first or last state, but their weight is 0.
        scattered = weights.new_zeros(rows, queries, memory.slots.shape[1]).scatter_add(2, index, weights)
        return context.reshape(rows, queries, memory.slots.shape[2]), scattered


def gather_rows(table: Tensor, index: Tensor) -> Tensor:
    """Return the rows ``index`` (B, Q, W) of the table (B, S, D), as (B·Q, W, D)."""
    offset = torch.arange(table.shape[0], device=table.device)[:, None, None] * table.shape[1]
    return torch.nn.functional.embedding((index + offset).flatten(0, 1), table.flatten(0, 1))
