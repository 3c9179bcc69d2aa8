"""Self-attention to blocks of positions, each compressed to one key and one value.

Liu et al. (2018), Generating Wikipedia by Summarizing Long Sequences, arXiv 1801.10198, §4.2.3, memory-compressed
attention.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from nmt.attention.base import clear_padding
from nmt.self_attention.base import Projected, SelfAttention, State
from nmt.self_attention.blocks import hidden_scores, in_blocks, joint_softmax
from nmt.self_attention.softmax import append, attend, attend_hypotheses
from nmt.settings.arguments import Size


class Compressed(NamedTuple):
    """Keys and values of the complete blocks, compressed, and of the positions of the unfinished one."""

    pooled_keys: Tensor  # (B, N, H, C, d)
    pooled_values: Tensor  # (B, N, H, C, d)
    keys: Tensor  # (B, N, H, t mod m, d)
    values: Tensor  # (B, N, H, t mod m, d)


class PooledSelfAttention(SelfAttention):
    """o_t = Σ_c softmax_c(q_t · k̄_c / √d) v̄_c, with k̄_c = P [k_cm; …; k_cm+m−1] and v̄_c = P' [v_cm; …; v_cm+m−1].

    P and P' are a convolution whose width and stride are m, the setting ``stride``. The last block of a sequence is
    filled with zeros. Training costs O(T² / m).

    Causally, a block is seen by the positions after it. A position also sees its own block up to itself, without
    compression: in the paper, the first block sees a zero. A step reads t / m + m keys, and stores as many.
    """

    def __init__(self, *, size: int, heads: int, stride: Size = 3) -> None:
        super().__init__(size=size, heads=heads)
        self.stride = stride
        self.P_k, self.P_v = (nn.Linear(stride * self.head_size, self.head_size, bias=False) for _ in range(2))

    def both_sides(self, projected: Projected, mask: Tensor) -> Tensor:
        keys, values = (clear_padding(part, mask[:, None]) for part in projected[1:])
        pooled = self._compress(in_blocks(keys, self.stride), in_blocks(values, self.stride))
        return attend(Projected(projected.queries, *pooled), mask[:, None, None, :: self.stride])

    def causal(self, projected: Projected) -> Tensor:
        queries, keys, values = (in_blocks(part, self.stride) for part in projected)
        pooled_keys, pooled_values = self._compress(keys, values)
        position, block = (torch.arange(count, device=keys.device) for count in (self.stride, keys.shape[2]))
        near = hidden_scores(queries, keys, position[:, None] >= position)
        # One product for all blocks: with one per block, 4,096 positions took 3.7 times as long.
        earlier = block < block.repeat_interleave(self.stride)[:, None]
        far = hidden_scores(queries.flatten(2, 3), pooled_keys, earlier)
        near, far = joint_softmax(near.flatten(2, 3), far)
        output = (near.view(*queries.shape[:4], -1) @ values).flatten(2, 3) + far @ pooled_values
        return output[:, :, : projected.queries.shape[2]]

    def start(self, like: Tensor) -> State:
        return Compressed(*[self.zeros(like)] * 4)

    def advance(self, projected: Projected, state: State) -> tuple[Tensor, State]:
        if torch.compiler.is_exporting():
            raise NotImplementedError("the sizes of the state do not grow with every step")
        pooled, recent = state[:2], append(state[2:], projected.keys, projected.values)
        output = attend_hypotheses(projected.queries, *append(pooled, *recent))
        if recent[0].shape[3] == self.stride:
            pooled = append(pooled, *self._compress(*(part[:, :, :, None] for part in recent)))
            recent = tuple(part[:, :, :, :0] for part in recent)
        return output, Compressed(*pooled, *recent)

    def _compress(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Return k̄ and v̄ (…, C, d) of blocks (…, C, m, d)."""
        return self.P_k(keys.flatten(-2)), self.P_v(values.flatten(-2))
