"""Self-attention to a window, and to a few global positions.

Beltagy, Peters & Cohan (2020), Longformer: The Long-Document Transformer, arXiv 2004.05150, §3.1.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import torch
from torch import Tensor

from nmt.self_attention.base import Projected, State
from nmt.self_attention.blocks import (
    BlockSelfAttention,
    distances,
    hidden_scores,
    in_blocks,
    in_sequence,
    joint_softmax,
    with_neighbours,
)
from nmt.self_attention.softmax import append, attend, attend_hypotheses
from nmt.settings.arguments import AtLeast, AtMost, Size


class Recent(NamedTuple):
    """Keys and values of the last w positions and of the first g. Their size does not change."""

    keys: Tensor  # (B, N, H, w, d)  the last position is last
    values: Tensor  # (B, N, H, w, d)
    global_keys: Tensor  # (B, N, H, g, d)
    global_values: Tensor  # (B, N, H, g, d)
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
        self.window = self.block_size = window
        self.global_positions = global_positions

    def by_products(self, projected: Projected, visible: Tensor) -> Tensor:
        s = torch.arange(visible.shape[3], device=visible.device)
        t = s[:, None]
        pattern = ((t - s).abs() <= self.window) | (torch.minimum(t, s) < self.global_positions)
        return attend(projected, visible & pattern)

    def by_blocks(self, projected: Projected, mask: Tensor, *, after: bool) -> Tensor:
        output = self._windows(projected, mask, after=after)
        if not after:  # the window of a global position, and those before it, are all that it sees
            return output
        first = slice(self.global_positions)
        from_global = attend(projected._replace(queries=projected.queries[:, :, first]), mask[:, None, None])
        return torch.cat([from_global, output[:, :, self.global_positions :]], dim=2)

    def start(self, like: Tensor) -> State:
        rows = like.shape[0]
        near, first = (
            like.new_zeros(rows, 1, self.heads, count, self.head_size) for count in (self.window, self.global_positions)
        )
        length = torch.zeros(rows, 1, dtype=torch.int64, device=like.device)
        return Recent(keys=near, values=near, global_keys=first, global_values=first, length=length)

    def advance(self, projected: Projected, state: State) -> tuple[Tensor, State]:
        before = Recent(*state)
        t = before.length[..., None, None, None]  # (B, N, 1, 1, 1)
        keys, values = append(before[:2], projected.keys, projected.values)
        near = torch.arange(self.window + 1, device=keys.device) >= self.window - t
        first = torch.arange(self.global_positions, device=keys.device)
        seen_keys, seen_values = append(before[2:4], keys, values)
        visible = torch.cat([first < t - self.window, near], dim=4)
        output = attend_hypotheses(projected.queries, seen_keys, seen_values, visible)
        new = first[:, None] == t
        after = Recent(
            keys=keys[:, :, :, 1:],
            values=values[:, :, :, 1:],
            global_keys=torch.where(new, projected.keys, before.global_keys),
            global_values=torch.where(new, projected.values, before.global_values),
            length=before.length + 1,
        )
        return output, after

    def _windows(self, projected: Projected, mask: Tensor, *, after: bool) -> Tensor:
        """Return o (B, H, T, d), in which global positions are seen but see only their window on the right."""
        length = mask.shape[1]
        queries, keys, values = (in_blocks(part, self.window) for part in projected)
        keys, values = with_neighbours(keys, after=after), with_neighbours(values, after=after)
        real = with_neighbours(in_blocks(mask[:, None, :, None], self.window), after=after).transpose(-1, -2)
        distance = distances(self.window, after=after, device=mask.device)
        near = hidden_scores(queries, keys, real & (distance.abs() <= self.window) & (after | (distance >= 0)))
        t = torch.arange(queries.shape[2] * self.window, device=mask.device).view(-1, self.window, 1)
        first = slice(self.global_positions)
        far = torch.arange(length, device=mask.device)[first] < t - self.window
        first_keys, first_values = (part[:, :, None, first] for part in projected[1:])
        far = hidden_scores(queries, first_keys, far & mask[:, None, None, None, first])
        near, far = joint_softmax(near, far)
        return in_sequence(near @ values + far @ first_values, length)
