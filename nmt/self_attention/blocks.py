"""Softmax self-attention of each position to a few others, in O(T): a sequence is cut into C blocks of w positions."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import pad

from nmt.self_attention.base import Projected, SelfAttention

SHORT = 3
"""Up to this number of blocks, all T × T products with a mask are faster than blocks."""


class BlockSelfAttention(SelfAttention):
    """A self-attention to a few positions. Subclasses implement both ways to compute it, and the decoder steps."""

    block_size: int  # w

    def both_sides(self, projected: Projected, mask: Tensor) -> Tensor:
        return self._complete(projected, mask, after=True)

    def causal(self, projected: Projected) -> Tensor:
        queries = projected.queries
        mask = torch.ones(queries.shape[0], queries.shape[2], dtype=torch.bool, device=queries.device)
        return self._complete(projected, mask, after=False)

    def by_products(self, projected: Projected, visible: Tensor) -> Tensor:
        """Return o (B, H, T, d) by all T × T products, of which only the ``visible`` ones (B, 1, T, T) may count."""
        raise NotImplementedError

    def by_blocks(self, projected: Projected, mask: Tensor, *, after: bool) -> Tensor:
        """Return the same by blocks, for mask (B, T); later positions are visible if ``after``."""
        raise NotImplementedError

    def near(self, projected: Projected, mask: Tensor, *, after: bool) -> tuple[Tensor, Tensor]:
        """Return ``band`` for each position and those less than w away."""
        position = torch.arange(mask.shape[1], device=mask.device)
        ranks = position + self.block_size * (2 - mask.long())  # padding, at the end, is out of reach
        return band(projected, ranks[:, None, :, None], self.block_size, after=after)

    def _complete(self, projected: Projected, mask: Tensor, *, after: bool) -> Tensor:
        length = mask.shape[1]
        if torch.compiler.is_compiling() or length <= SHORT * self.block_size:
            visible = mask[:, None, None].expand(-1, -1, length, -1)
            return self.by_products(projected, visible if after else visible.tril())
        return self.by_blocks(projected, mask, after=after)


def band(
    projected: Projected, ranks: Tensor, size: int, *, after: bool, itself: float | None = None
) -> tuple[Tensor, Tensor]:
    """Return the scores (…, C, w, S) of each position in blocks of w = ``size``, for keys with values (…, C, S, d).

    A position sees those whose rank is less than ``size`` away. ``ranks`` (B, H or 1, T, n) are those of n orders, of
    which the sequence has the first. Its ranks rise, from ``size`` on, so that the zeros around the sequence are out of
    reach. Positions that see each other in N orders share their weight: log N is subtracted from their score.
    ``itself`` is the score of a position with itself; None: its product, as for all others.
    """
    queries, keys, values, own = (in_blocks(part, size) for part in (*projected, ranks.int()))
    keys, values, others = (with_neighbours(part, after=after) for part in (keys, values, own))
    distances = own[..., :, None, :] - others[..., None, :, :]  # (…, C, w, S, n)
    near, distance = distances.abs() < size, distances[..., 0]
    scores = hidden_scores(queries, keys, near[..., 0] if after else near[..., 0] & (distance >= 0))
    if itself is not None:
        scores = scores.masked_fill(distance == 0, itself)
    if ranks.shape[3] > 1:
        scores = scores - near.sum(-1).clamp(min=1).to(scores.dtype).log()
    return scores, values


def in_blocks(sequence: Tensor, size: int) -> Tensor:
    """Return a sequence (…, T, d) as (…, C, size, d), with zeros, or False, after its end."""
    padded = pad(sequence, (0, 0, 0, -sequence.shape[-2] % size))
    return torch.unflatten(padded, -2, (-1, size))


def in_sequence(blocks: Tensor, length: int) -> Tensor:
    """Return blocks (…, C, w, d) as a sequence (…, length, d); the inverse of ``in_blocks``."""
    return blocks.flatten(-3, -2)[..., :length, :]


def with_neighbours(blocks: Tensor, *, after: bool) -> Tensor:
    """Return for each block (…, C, w, d) the block before it, itself, and, if ``after``, the next: (…, C, 3w, d)."""
    padded = pad(blocks, (0, 0, 0, 0, 1, int(after)))
    count = blocks.shape[-3]
    return torch.cat([padded[..., shift : shift + count, :, :] for shift in range(2 + after)], dim=-2)


def hidden_scores(queries: Tensor, keys: Tensor, visible: Tensor | None) -> Tensor:
    """Return q_t · k_s / √d (…, T, S), with the lowest finite number at keys that are not ``visible`` (None: all)."""
    scores = queries @ keys.transpose(-1, -2) / math.sqrt(queries.shape[-1])
    return scores if visible is None else scores.masked_fill(~visible, torch.finfo(scores.dtype).min)


def joint_softmax(near: Tensor, far: Tensor) -> tuple[Tensor, Tensor]:
    """Return the parts of one softmax over two groups of scores, each (…, T, S)."""
    weights = torch.cat([near, far], dim=-1).softmax(-1)
    return weights[..., : near.shape[-1]], weights[..., near.shape[-1] :]
