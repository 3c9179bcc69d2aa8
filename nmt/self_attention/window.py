"""Self-attention to a window, and to a few global positions.

Beltagy, Peters & Cohan (2020), Longformer: The Long-Document Transformer, arXiv 2004.05150, §3.1.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import torch
from torch import Tensor

from nmt.self_attention.base import Projected, State
from nmt.self_attention.blocks import BlockSelfAttention, hidden_scores, in_blocks, in_sequence, joint_softmax
from nmt.self_attention.softmax import append, attend, attend_hypotheses
from nmt.settings.arguments import AtLeast, AtMost, Size


class Recent(NamedTuple):
    """Keys and values of the first g positions and of the last w. Their size does not change."""

    keys: Tensor  # (B, N, H, g + w, d)  the last position is last
    values: Tensor  # (B, N, H, g + w, d)
    length: Tensor  # (B, N)  number of positions, int64


class WindowSelfAttention(BlockSelfAttention):
    """o_t = Σ_s softmax_s(q_t · k_s / √d) v_s over |t − s| ≤ w, and over all s if t or s is one of the first g.

    w is ``window``, and g is ``global_positions``. Training costs O(T w). Causally, only s ≤ t are seen: a step costs
    O(w), and its state has a constant size. In the paper, global positions have separate projections; here, all
    positions share theirs.
    """

    def __init__(
        self,
        *,
        size: int,
        heads: int,
        window: Size = 64,
        global_positions: Annotated[int, AtLeast(0), AtMost(65_536)] = 1,
    ) -> None:
        super().__init__(size=size, heads=heads)
        self.window = window
        self.block_size = window + 1
        self.global_positions = global_positions

    def by_products(self, projected: Projected, visible: Tensor) -> Tensor:
        s = torch.arange(visible.shape[3], device=visible.device)
        t = s[:, None]
        pattern = ((t - s).abs() <= self.window) | (torch.minimum(t, s) < self.global_positions)
        return attend(projected, visible & pattern)

    def by_blocks(self, projected: Projected, mask: Tensor, *, after: bool) -> Tensor:
        first_queries, first_keys, first_values = (part[:, :, : self.global_positions] for part in projected)
        s = torch.arange(mask.shape[1], device=mask.device)
        visible = (s[: self.global_positions] < s[:, None] - self.window) & mask[:, None, None, : self.global_positions]
        far = in_blocks(hidden_scores(projected.queries, first_keys, visible), self.block_size)
        near, near_values = self.near(projected, mask, after=after)
        near, far = joint_softmax(near, far)
        output = in_sequence(near @ near_values + far @ first_values[:, :, None], mask.shape[1])
        if not after:  # the window of a global position, and those before it, are all that it sees
            return output
        from_first = attend(projected._replace(queries=first_queries), mask[:, None, None])
        return torch.cat([from_first, output[:, :, self.global_positions :]], dim=2)

    def start(self, like: Tensor) -> State:
        nothing = self.zeros(like, self.global_positions + self.window)
        return Recent(nothing, nothing, torch.zeros(nothing.shape[:2], dtype=torch.int64, device=like.device))

    def advance(self, projected: Projected, state: State) -> tuple[Tensor, State]:
        cache, length = state[:2], state[2]
        t = length[..., None, None, None]  # (B, N, 1, 1, 1)
        seen = append(cache, projected.keys, projected.values)
        first, near = (torch.arange(count, device=t.device) for count in (self.global_positions, self.window + 1))
        visible = torch.cat([first < t - self.window, near >= self.window - t], dim=4)
        output = attend_hypotheses(projected.queries, seen[0], seen[1], visible)
        new = first[:, None] == t
        keys, values = (
            torch.cat([torch.where(new, one, part[:, :, :, : len(first)]), part[:, :, :, len(first) + 1 :]], dim=3)
            for one, part in zip(projected[1:], seen, strict=True)
        )
        return output, Recent(keys, values, length + 1)
