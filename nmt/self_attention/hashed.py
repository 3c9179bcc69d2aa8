"""Self-attention to the positions with an equal hash.

Kitaev, Kaiser & Levskaya (2020), Reformer: The Efficient Transformer, arXiv 2001.04451, §2 and appendix A.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import normalize

from nmt.self_attention.base import Projected, State
from nmt.self_attention.blocks import BlockSelfAttention, band, hidden_scores, in_sequence
from nmt.self_attention.softmax import append
from nmt.settings.arguments import Size

DIRECTIONS = 4  # random directions of a hash; each has two buckets
ITSELF = -1e4  # score of a position with itself: lower than all others, and a number of float16


class Hashes(NamedTuple):
    """Keys, values and hashes of the positions so far. They grow with every step."""

    keys: Tensor  # (B, N, H, T, d)
    values: Tensor  # (B, N, H, T, d)
    buckets: Tensor  # (B, N, H, T, rounds)  int64


class HashedSelfAttention(BlockSelfAttention):
    """o_t = Σ_s softmax_s(q_t · k_s / √d) v_s over s ∈ P_t, with k_s = q_s / ‖q_s‖ (eqs. 2 to 5, shared QK).

    P_t is the union over ``rounds``. In each, the bucket of a position is the largest of [q R; −q R], with a random
    matrix R. Sort the positions by bucket, then by position: P_t holds those of t's bucket that are less than ``chunk``
    ranks away from t. A position attends to itself only if it sees no other. Training costs O(T · rounds · chunk).

    The paper cuts the sorted sequence into chunks, and a position sees its chunk and the one before. Where a chunk
    begins then depends on later positions, so steps could not equal training. For the same reason, the number of
    buckets does not depend on T. Causally, P_t holds only s ≤ t: the last ``chunk`` positions of t's bucket. A step
    compares t with all positions.
    """

    projections: ClassVar[int] = 2  # queries are also keys
    rotations: Tensor

    def __init__(self, *, size: int, heads: int, rounds: Size = 2, chunk: Size = 64) -> None:
        super().__init__(size=size, heads=heads)
        self.chunk = self.block_size = chunk
        self.register_buffer("rotations", torch.randn(rounds, self.head_size, DIRECTIONS))

    def project(self, states: Tensor) -> Projected:
        queries, values = self.split_heads(states)
        return Projected(queries, normalize(queries, dim=-1), values)

    def start(self, like: Tensor) -> State:
        empty = self.zeros(like)
        return Hashes(empty, empty, empty.new_zeros(*empty.shape[:4], len(self.rotations), dtype=torch.int64))

    def advance(self, projected: Projected, state: State) -> tuple[Tensor, State]:
        bucket = self._buckets(projected.queries)
        after = Hashes(*append(state, projected.keys, projected.values, bucket))
        equal = after.buckets == bucket
        later = equal.flip(3).cumsum(3).flip(3)  # positions of this bucket from s to t
        visible = (equal & (later <= self.chunk)).any(4)[..., None, :]
        itself = torch.arange(visible.shape[-1], device=visible.device) == visible.shape[-1] - 1
        scores = hidden_scores(projected.queries, after.keys, visible).masked_fill(itself, ITSELF)
        return scores.softmax(-1) @ after.values, after

    @torch.no_grad()
    def _buckets(self, queries: Tensor) -> Tensor:
        """Return the bucket (…, T, rounds) of each query (…, T, d) in each round."""
        exact = torch.promote_types(queries.dtype, torch.float32)
        with torch.autocast(queries.device.type, enabled=False):
            turned = queries.to(exact)[..., None, :, :] @ self.rotations.to(exact)  # (…, rounds, T, directions)
        return torch.cat([turned, -turned], dim=-1).argmax(-1).transpose(-1, -2)

    @torch.no_grad()
    def _ranks(self, queries: Tensor, mask: Tensor) -> Tensor:
        """Return numbers (B, H, T, rounds) that differ by less than ``chunk`` only if two positions see each other."""
        length = mask.shape[1]
        bucket = self._buckets(queries).masked_fill(~mask[:, None, :, None], 2 * DIRECTIONS)
        codes = bucket * length + torch.arange(length, device=mask.device)[:, None]
        return codes.argsort(dim=2).argsort(dim=2) + (bucket + 1) * self.chunk  # each bucket begins ``chunk`` later

    def by_products(self, projected: Projected, visible: Tensor) -> Tensor:
        ranks = self._ranks(projected.queries, visible[:, 0, -1])
        near = (ranks[:, :, :, None] - ranks[:, :, None]).abs() < self.chunk
        position = torch.arange(visible.shape[3], device=visible.device)
        scores = hidden_scores(projected.queries, projected.keys, visible & near.any(-1))
        return scores.masked_fill(position[:, None] == position, ITSELF).softmax(-1) @ projected.values

    def by_blocks(self, projected: Projected, mask: Tensor, *, after: bool) -> Tensor:
        ranks = self._ranks(projected.queries, mask)
        rounds = [self._round(projected, ranks.roll(-number, 3), after=after) for number in range(ranks.shape[3])]
        outputs, totals = (torch.stack(parts) for parts in zip(*rounds, strict=True))
        return (totals.softmax(0) * outputs).sum(0)

    def _round(self, projected: Projected, ranks: Tensor, *, after: bool) -> list[Tensor]:
        """Return the output (B, H, T, d) of the round whose ranks are first, and the log of its sum of weights."""
        order = ranks[..., :1].argsort(dim=2)
        in_order = Projected(*(_take(part, order) for part in projected))
        scores, values = band(in_order, _take(ranks, order), self.chunk, after=after, itself=ITSELF)
        parts = scores.softmax(-1) @ values, scores.logsumexp(-1, keepdim=True)
        back = order.argsort(dim=2)
        return [_take(in_sequence(part, order.shape[2]), back) for part in parts]


def _take(sequence: Tensor, order: Tensor) -> Tensor:
    """Return the positions of a sequence (B, H, T, d) in this order (B, H, T, 1)."""
    return sequence.gather(2, order.expand(-1, -1, -1, sequence.shape[3]))
