"""Self-attention to the nearest positions and to every l-th one, a pattern that is fixed in advance.

Child et al. (2019), Generating Long Sequences with Sparse Transformers, arXiv 1904.10509, §4.3, strided attention.
"""

from __future__ import annotations

import torch
from torch import Tensor

from nmt.self_attention.base import Projected, State
from nmt.self_attention.blocks import BlockSelfAttention, hidden_scores, in_blocks, in_sequence, joint_softmax
from nmt.self_attention.softmax import Cache, SoftmaxSelfAttention, append, attend, attend_hypotheses
from nmt.settings.arguments import Size


class StridedSelfAttention(BlockSelfAttention, SoftmaxSelfAttention):
    """o_t = Σ_s softmax_s(q_t · k_s / √d) v_s over |t − s| < l, and over all s with t − s a multiple of l.

    l is ``stride``. Two layers connect any two positions. Training costs O(T (l + T / l)), which is least for l = √T.
    Causally, only s ≤ t are seen, and a step reads l + t / l positions. All heads see both parts of the pattern, which
    the paper calls a merged head.
    """

    def __init__(self, *, size: int, heads: int, stride: Size = 16) -> None:
        super().__init__(size=size, heads=heads)
        self.stride = self.block_size = stride

    def by_products(self, projected: Projected, visible: Tensor) -> Tensor:
        return attend(projected, visible & self._pattern(visible.shape[3], visible.device))

    def advance(self, projected: Projected, state: State) -> tuple[Tensor, State]:
        cache = Cache(*append(state, projected.keys, projected.values))
        length = cache.keys.shape[3]
        if torch.compiler.is_compiling():  # a graph cannot slice by sizes
            visible = self._pattern(length, cache.keys.device)[-1:].expand(*projected.queries.shape[:3], -1, -1)
            return attend_hypotheses(projected.queries, *cache, visible), cache
        near = max(length - self.stride, 0)
        far = slice((length - 1) % self.stride, near, self.stride)
        seen = (torch.cat([part[:, :, :, far], part[:, :, :, near:]], dim=3) for part in cache)
        return attend_hypotheses(projected.queries, *seen), cache

    def _pattern(self, length: int, device: torch.device) -> Tensor:
        """Return which positions s each position t sees (T, T), on both sides."""
        s = torch.arange(length, device=device)
        distance = (s[:, None] - s).abs()
        return (distance < self.stride) | (distance % self.stride == 0)

    def by_blocks(self, projected: Projected, mask: Tensor, *, after: bool) -> Tensor:
        """Return o (B, H, T, d). Position i of each block sees position i of all other blocks."""
        columns = (in_blocks(part, self.stride).transpose(2, 3) for part in (*projected, mask[:, None, :, None]))
        queries, keys, values, real = columns  # (B, H, l, C, d)
        block = torch.arange(queries.shape[3], device=mask.device)
        others = block[:, None] != block if after else block[:, None] > block
        far = hidden_scores(queries, keys, real.transpose(3, 4) & others).transpose(2, 3)
        near, near_values = self.near(projected, mask, after=after)
        near, far = joint_softmax(near, far)
        output = near @ near_values + (far.transpose(2, 3) @ values).transpose(2, 3)
        return in_sequence(output, mask.shape[1])
