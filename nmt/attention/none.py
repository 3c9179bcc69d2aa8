"""No attention: the decoder sees the source only through its initial state.

Sutskever, Vinyals & Le (2014), Sequence to Sequence Learning with Neural Networks, arXiv 1409.3215.
"""

from __future__ import annotations

from torch import Tensor

from nmt.attention.base import Attention, Memory, Update
from nmt.settings.arguments import Size


class NoAttention(Attention):
    """No attention, for comparison: empty contexts (D = 0) from zero slots (R = 0)."""

    reads_source = False

    def __init__(self, *, state_size: Size, query_size: Size) -> None:
        super().__init__()
        self.context_size = 0

    def update(self, memory: Memory, states: Tensor, mask: Tensor) -> Update:
        return Update(states[..., :0], states[..., :0])

    def read_weights(self, query: Tensor, memory: Memory) -> Tensor:
        return query[..., :0]
