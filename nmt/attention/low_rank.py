"""Attention to a source that is compressed along its length by weights learned for each position.

Wang et al. (2020), Linformer: Self-Attention with Linear Complexity, arXiv 2006.04768. Here
the queries come from the target.
"""

from __future__ import annotations

from math import sqrt

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding

from nmt.attention.base import Attention, Memory, Update, clear_padding
from nmt.errors import SourceTooLong
from nmt.settings.arguments import Count, Size


class LowRankAttention(Attention):
    """Attention to a source that is compressed to K positions.

    c_t = softmax(q_tᵀ (E K)ᵀ / √A) (F H) with K = W_k H, q_t = W_q d_t: eq. 7, where the values are the states H.

    E and F (K × ``max_length``) weigh source positions, so a source longer than ``max_length`` cannot be written.
    """

    signed = True  # F can be negative

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
        self.W_k = nn.Linear(state_size, key_size, bias=False)
        self.W_q = nn.Linear(query_size, key_size, bias=False)
        self.E, self.F = (nn.Parameter(torch.empty(slots, max_length).normal_(std=1 / sqrt(slots))) for _ in range(2))

    def update(self, memory: Memory, states: Tensor, mask: Tensor) -> Update:
        """Return the columns of F as weights, and E H (B, K, E) as the state."""
        position = memory.length[:, None] + mask.cumsum(1) - 1
        compressed = clear_padding(columns(self.E, position, self), mask).transpose(1, 2) @ states
        state = compressed if memory.state is None else memory.state + compressed
        return Update(columns(self.F, position, self), states, state=state)

    def keys(self, memory: Memory) -> Tensor:
        """Return E K (B, K, A)."""
        return self.W_k(memory.state)  # type: ignore[no-any-return]

    def read_weights(self, query: Tensor, memory: Memory) -> Tensor:
        """Return a softmax over the K compressed positions (B, Q, K)."""
        assert memory.keys is not None
        scores = self.W_q(query) @ memory.keys.transpose(1, 2)
        return torch.softmax(scores / sqrt(memory.keys.shape[2]), dim=2)


def columns(projection: Tensor, position: Tensor, module: nn.Module) -> Tensor:
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
