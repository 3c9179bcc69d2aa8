"""Scaled dot-product self-attention. Vaswani et al. (2017), Attention Is All You Need, arXiv 1706.03762, §3.2.1."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from nmt.self_attention.base import Projected, SelfAttention, State
from nmt.self_attention.blocks import hidden_scores


class Cache(NamedTuple):
    """Keys and values of the positions so far. They grow with every step."""

    keys: Tensor  # (B, N, H, T, d)
    values: Tensor  # (B, N, H, T, d)


class SoftmaxSelfAttention(SelfAttention):
    """o_t = Σ_s softmax_s(q_t · k_s / √d) v_s. A step costs O(T)."""

    def both_sides(self, projected: Projected, mask: Tensor) -> Tensor:
        return attend(projected, mask[:, None, None])

    def causal(self, projected: Projected) -> Tensor:
        return scaled_dot_product_attention(*projected, is_causal=True)

    def start(self, like: Tensor) -> State:
        empty = self.zeros(like)
        return Cache(empty, empty)

    def advance(self, projected: Projected, state: State) -> tuple[Tensor, State]:
        cache = Cache(*append(state, projected.keys, projected.values))
        return attend_hypotheses(projected.queries, *cache), cache


def append(state: State, *new: Tensor) -> State:
    """Return the tensors of a state (B, N, H, t, …), each followed by that of further positions."""
    return tuple(torch.cat(pair, dim=3) for pair in zip(state, new, strict=True))


def attend(projected: Projected, visible: Tensor) -> Tensor:
    """Return Σ_s softmax_s(q_t · k_s / √d) v_s (B, H, T, d) over the keys that are ``visible`` (B or 1, H or 1, T, S).

    Hidden ones get the lowest finite number, as in ``SourceAttention``: −∞ would turn a row without keys into NaN.
    """
    lowest = torch.finfo(projected.queries.dtype).min
    bias = torch.zeros_like(visible, dtype=projected.queries.dtype).masked_fill(~visible, lowest)
    return scaled_dot_product_attention(*projected, attn_mask=bias)


def attend_hypotheses(queries: Tensor, keys: Tensor, values: Tensor, visible: Tensor | None = None) -> Tensor:
    """Return o (B, N, H, 1, d) of one query (B, N, H, 1, d) per hypothesis, whose keys are (B, N, H, S, d)."""
    return hidden_scores(queries, keys, visible).softmax(-1) @ values
