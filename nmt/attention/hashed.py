"""Attention to the source states whose hash is near the query's.

Kitaev, Kaiser & Levskaya (2020), Reformer: The Efficient Transformer, arXiv 2001.04451. Here the queries come from the
target. The hash is Andoni et al. (2015), Practical and Optimal LSH for Angular Distance, arXiv 1509.02897.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from nmt.attention.base import Memory, SourceAttention, require_queries
from nmt.settings.arguments import Size

BUCKET = 1 << 32  # a code is bucket · BUCKET + position, so that a sort of the codes sorts by bucket, then by position
MOST_DIRECTIONS = 16  # per rotation: at most (2 · 16)² buckets


class HashedAttention(SourceAttention):
    """Attention to the source states P_t whose hash is near the query's.

    c_t = Σ_s softmax(q_tᵀ k_s) h_s over s ∈ P_t, k_s = W_k h_s / ‖W_k h_s‖, q_t = W_q d_t (eq. 2 and §2, shared QK).

    P_t is the union of ``rounds`` chunks (eqs. 4 to 6). In each round, random rotations turn keys and queries, and the
    largest coordinate of a vector, with its sign, is its bucket. ``write`` sorts the source by bucket. A query sees the
    ``chunk`` states from the start of its bucket on. A source has about twice as many buckets as chunks, at most 1,024.
    A bucket is a pair of two smaller hashes, as in the authors' code.

    A read compares and mixes at most ``rounds`` · ``chunk`` states, for a source of any length. A source of at most
    ``chunk`` states is read as a whole. If the queries of a call together see more states than the source has, as in
    training, all states are compared at once and those that a query does not see are masked. The result is the same.
    """

    rotations: Tensor

    def __init__(
        self,
        *,
        state_size: Size,
        query_size: Size,
        rounds: Size = 2,
        chunk: Size = 64,
        key_size: Size = 64,
    ) -> None:
        super().__init__()
        self.context_size = state_size
        self.chunk = chunk
        self.W_k = nn.Linear(state_size, key_size, bias=False)
        self.W_q = nn.Linear(query_size, key_size, bias=False)
        self.register_buffer("rotations", torch.randn(rounds, 2, MOST_DIRECTIONS, key_size))

    def keys(self, memory: Memory) -> Tensor:
        """Return the keys (B, S, A), of length 1."""
        return normalize(self.W_k(memory.slots), dim=2)

    def write(self, states: Tensor, mask: Tensor, trace: bool = False) -> Memory:
        """Return the memory of the sources, whose state (B, rounds, S) are sorted codes of the positions."""
        memory = super().write(states, mask, trace)
        assert memory.keys is not None
        code = self.buckets(memory.keys, memory.length).masked_fill(~mask[:, None], MOST_DIRECTIONS**2 * 4) * BUCKET
        position = torch.arange(mask.shape[1], device=mask.device)
        return memory._replace(state=(code + position).sort(dim=2).values)

    @torch.no_grad()
    def buckets(self, vectors: Tensor, length: Tensor) -> Tensor:
        """Return the bucket (B, rounds, n) of each vector (B, n, A), for sources of ``length`` (B,) states."""
        directions = self.rotations.shape[2]
        count = (2 * length / self.chunk).sqrt().div(2).ceil().clamp(1, directions).long()[:, None]
        exact = torch.promote_types(vectors.dtype, torch.float32)
        with torch.autocast(vectors.device.type, enabled=False):
            turned = torch.einsum("bna,rhda->hbrnd", vectors.to(exact), self.rotations.to(exact))
        unused = torch.arange(directions, device=vectors.device) >= count  # (B, directions)
        turned = turned.masked_fill(unused[:, None, None], 0)
        largest = turned.abs().argmax(4, keepdim=True)
        first, second = (2 * largest + (turned.gather(4, largest) < 0)).squeeze(4).unbind()  # (B, rounds, n) each
        return first * (2 * count[..., None]) + second

    @torch.no_grad()
    def visible(self, query: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        """Return the positions (B, Q, rounds · chunk) that projected queries (B, Q, A) see, and which are real."""
        assert memory.state is not None
        bucket = self.buckets(query, memory.length) * BUCKET
        start = (memory.state[:, :, None] < bucket[..., None]).sum(3)
        last = memory.length[:, None, None]
        start = start.minimum((last - self.chunk).clamp(min=0))
        rank = start[..., None] + torch.arange(self.chunk, device=query.device)  # (B, rounds, Q, chunk)
        index = rank.clamp(max=memory.state.shape[2] - 1).flatten(2)
        position = memory.state.gather(2, index).reshape(rank.shape) % BUCKET
        real = rank < last[..., None]
        return position.transpose(1, 2).flatten(2), real.transpose(1, 2).flatten(2)

    def scores(self, query: Tensor, memory: Memory) -> Tensor:
        """Return q_tᵀ k_s (B, Q, S) of projected queries (B, Q, A)."""
        assert memory.keys is not None
        return query @ memory.keys.transpose(1, 2)

    def read(self, query: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        require_queries(query)
        projected = self.W_q(query)
        length = memory.slots.shape[1]
        deployed = torch.compiler.is_compiling()  # a graph cannot branch on sizes
        if not deployed and length <= self.chunk:
            return super().read(projected, memory)
        position, real = self.visible(projected, memory)
        nothing = projected.new_zeros(*position.shape[:2], length)
        times = nothing.scatter_add(2, position, real.to(nothing.dtype))  # how many rounds found each state
        lowest = torch.finfo(projected.dtype).min
        if not deployed and length <= position[0].numel():  # all queries together see more states than the source has
            weights = torch.softmax(self.masked_scores(projected, memory).masked_fill(times == 0, lowest), dim=2)
            return weights @ memory.slots, weights
        assert memory.keys is not None
        keys, values = (gather_rows(table, position) for table in (memory.keys, memory.slots))
        scores = (keys @ projected.flatten(0, 1)[:, :, None]).reshape(position.shape)
        # A state that several rounds find counts once: N of appendix A.
        scores = scores - times.gather(2, position).clamp(min=1).log()
        weights = torch.softmax(scores.masked_fill(~real, lowest), dim=2).masked_fill(~real, 0)
        context = (weights.flatten(0, 1)[:, None] @ values).reshape(*position.shape[:2], -1)
        return context, nothing.scatter_add(2, position, weights.to(nothing.dtype))


def gather_rows(table: Tensor, index: Tensor) -> Tensor:
    """Return the rows ``index`` (B, Q, W) of the table (B, S, D), as (B·Q, W, D)."""
    offset = torch.arange(table.shape[0], device=table.device)[:, None, None] * table.shape[1]
    return torch.nn.functional.embedding((index + offset).flatten(0, 1), table.flatten(0, 1))
