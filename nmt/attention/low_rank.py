"""Attention to a source that is compressed along its length by weights learned for each position.

Wang et al. (2020), Linformer: Self-Attention with Linear Complexity, arXiv 2006.04768. Here
the queries come from the target.
"""

from __future__ import annotations

from math import sqrt

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding

from nmt.attention.base import Attention, Memory, clear_padding
from nmt.errors import SourceTooLong
from nmt.settings.arguments import Count, Size


class LowRankAttention(Attention):
    """Attention to a source that is compressed to K positions.

    c_t = softmax(q_tᵀ (E K)ᵀ / √A) (F H) with K = W_k H, q_t = W_q d_t: eq. 7, where the values are the states H.

    E and F (K × ``max_length``) weigh source positions, so a source longer than ``max_length`` cannot be written.
    """

    def __init__(
        self,
        *,
        state_size: Size,
        query_size: Size,
        slots: Size = 32,
        key_size: Size = 256,
        max_length: Count = 100,
    ) -> None:
        super().__init__()
        self.context_size = state_size
        self.signed = True  # F can be negative
        self.W_k = nn.Linear(state_size, key_size, bias=False)
        self.W_q = nn.Linear(query_size, key_size, bias=False)
        self.E, self.F = (nn.Parameter(torch.empty(slots, max_length).normal_(std=1 / sqrt(slots))) for _ in range(2))

    def write_weights(self, states: Tensor, mask: Tensor, start: Tensor) -> Tensor:
        """Return column s of F for each source position s (B, S, K)."""
        return self._columns(self.F, mask, start)

    def write_part(self, states: Tensor, mask: Tensor, start: Tensor, trace: bool) -> Memory:
        states = clear_padding(states, mask)
        compress = clear_padding(self._columns(self.E, mask, start), mask).transpose(1, 2)
        return super().write_part(states, mask, start, trace)._replace(keys=self.W_k(compress @ states))  # W_k (E H)

    def merge_parts(self, memory: Memory, part: Memory) -> Memory:
        assert memory.keys is not None and part.keys is not None
        return super().merge_parts(memory, part)._replace(keys=memory.keys + part.keys)

    def read_weights(self, query: Tensor, memory: Memory) -> Tensor:
        """Return a softmax over the K compressed positions (B, Q, K)."""
        assert memory.keys is not None
        scores = self.W_q(query) @ memory.keys.transpose(1, 2)
        return torch.softmax(scores / sqrt(memory.keys.shape[2]), dim=2)

    def _columns(self, projection: Tensor, mask: Tensor, start: Tensor) -> Tensor:
        """Return the columns of ``projection`` (K × max_length) for the S positions from ``start`` on (B, S, K)."""
        return position_columns(projection, start[:, None] + mask.cumsum(1) - 1, self)


def position_columns(projection: Tensor, position: Tensor, module: nn.Module) -> Tensor:
    """Return the columns of ``projection`` (K × max_length) at each ``position`` (B, S) of a source (B, S, K).

    Raises SourceTooLong, naming the class of ``module``, if there is no such column; an exported graph fails there.
    """
    limit = projection.shape[1]
    if not torch.compiler.is_compiling() and position.numel() and (longest := int(position.max()) + 1) > limit:
        raise SourceTooLong(
            f"source of {longest:,} states: {type(module).__name__} holds at most {limit:,}; "
            "split the source or train on longer ones"
        )
    return embedding(position.clamp(min=0), projection.t())
