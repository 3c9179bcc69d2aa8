"""Scaled dot-product self-attention. Vaswani et al. (2017), Attention Is All You Need, arXiv 1706.03762, §3.2.1."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from nmt.self_attention.base import Projected, SelfAttention, State


class Cache(NamedTuple):
    """Keys and values of the positions so far. They grow with every step."""

    keys: Tensor  # (B, N, H, T, d)
    values: Tensor  # (B, N, H, T, d)


class SoftmaxSelfAttention(SelfAttention):
    """o_t = Σ_s softmax_s(q_t · k_s / √d) v_s. A step costs O(T)."""

    def both_sides(self, projected: Projected, mask: Tensor) -> Tensor:
        # The lowest finite number, as in ``SourceAttention``: −∞ would turn a row of padding only into NaN.
        lowest = torch.finfo(projected.queries.dtype).min
        bias = torch.zeros_like(mask, dtype=projected.queries.dtype).masked_fill(~mask, lowest)
        return scaled_dot_product_attention(*projected, attn_mask=bias[:, None, None])

    def causal(self, projected: Projected) -> Tensor:
        return scaled_dot_product_attention(*projected, is_causal=True)

    def start(self, like: Tensor) -> State:
        size = self.W_o.in_features // self.heads
        empty = like.new_zeros(like.shape[0], 1, self.heads, 0, size)
        return Cache(empty, empty)

    def advance(self, projected: Projected, state: State) -> tuple[Tensor, State]:
        new = (projected.keys, projected.values)
        cache = Cache(*(torch.cat(pair, dim=3) for pair in zip(state, new, strict=True)))
        # The exporter accepts four axes only.
        queries, keys, values = (part.flatten(0, 1) for part in (projected.queries, *cache))
        output = scaled_dot_product_attention(queries, keys, values)
        return output.view_as(projected.queries), cache
