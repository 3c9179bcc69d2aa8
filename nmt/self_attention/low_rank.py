"""Self-attention to a sequence that is compressed along its length by weights learned for each position.

Wang et al. (2020), Linformer: Self-Attention with Linear Complexity, arXiv 2006.04768, §4.
"""

from __future__ import annotations

from math import sqrt

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from nmt.attention.base import clear_padding
from nmt.attention.low_rank import columns
from nmt.self_attention.base import Projected, SelfAttention
from nmt.settings.arguments import Count, Size


class LowRankSelfAttention(SelfAttention):
    """o_t = softmax(q_tᵀ (E K)ᵀ / √d) (F V) (eq. 7), with one E and F (``slots`` × ``max_length``) for all heads.

    It costs O(T K) for K ``slots``. E and F weigh positions, so a sequence longer than ``max_length`` cannot be read.
    """

    def __init__(self, *, size: int, heads: int, slots: Size = 32, max_length: Count = 100) -> None:
        super().__init__(size=size, heads=heads)
        self.E, self.F = (nn.Parameter(torch.empty(slots, max_length).normal_(std=1 / sqrt(slots))) for _ in range(2))

    def both_sides(self, projected: Projected, mask: Tensor) -> Tensor:
        keys, values = (
            columns(weights, mask.cumsum(1) - 1, self).transpose(1, 2)[:, None] @ clear_padding(part, mask[:, None])
            for weights, part in ((self.E, projected.keys), (self.F, projected.values))
        )
        return scaled_dot_product_attention(projected.queries, keys, values)
