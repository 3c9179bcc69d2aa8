"""Softmax attention of each position to a few others, in O(T): the sequence is cut into C blocks of w positions."""

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

    def _complete(self, projected: Projected, mask: Tensor, *, after: bool) -> Tensor:
        length = mask.shape[1]
        if torch.compiler.is_compiling() or length <= SHORT * self.block_size:
            visible = mask[:, None, None].expand(-1, -1, length, -1)
            return self.by_products(projected, visible if after else visible.tril())
        return self.by_blocks(projected, mask, after=after)


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


def distances(size: int, *, after: bool, device: torch.device) -> Tensor:
    """Return t − s (w, 2w or 3w) of each position t of a block and each s of ``with_neighbours``."""
    positions = torch.arange((2 + after) * size, device=device)
    return positions[size : 2 * size, None] - positions


def hidden_scores(queries: Tensor, keys: Tensor, visible: Tensor | None = None) -> Tensor:
    """Return q_t · k_s / √d (…, T, S), with the lowest finite number at keys that are not ``visible`` (None: all)."""
    scores = queries @ keys.transpose(-1, -2) / math.sqrt(queries.shape[-1])
    return scores if visible is None else scores.masked_fill(~visible, torch.finfo(scores.dtype).min)


def joint_softmax(near: Tensor, far: Tensor) -> tuple[Tensor, Tensor]:
    """Return the parts of one softmax over two groups of scores, each (…, T, S)."""
    weights = torch.cat([near, far], dim=-1).softmax(-1)
    return weights[..., : near.shape[-1]], weights[..., near.shape[-1] :]
