"""Several attentions side by side, each to its own projection of the source.

Vaswani et al. (2017), Attention Is All You Need, arXiv 1706.03762, §3.2.2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from torch import Tensor, nn

from nmt.attention.base import Attention, Memory, clear_padding
from nmt.bounds import AtLeast


class MultiHeadAttention(Attention):
    """W_o [c¹; …; cᴴ], where head i is the ``inner`` attention over W_sⁱ h and W_qⁱ q, 1/H of their sizes each.

    ``inner`` makes any attention from ``state_size`` and ``query_size``. Heads are to it what rows of a batch are, so
    its own parameters serve all of them; what differs are the projections. Slots stand head after head, (B, H·R, D/H);
    the alignment is the mean of the heads', as they were before W_o.
    """

    def __init__(
        self,
        *,
        state_size: int,
        query_size: int,
        inner: Callable[..., Attention],
        heads: Annotated[int, AtLeast(1)] = 8,
    ) -> None:
        super().__init__()
        for name, size in (("encoder", state_size), ("decoder", query_size)):
            if size % heads:
                raise ValueError(f"attention.heads={heads}: must divide {name}.hidden_size={size}")
        self.heads = heads
        self.inner = inner(state_size=state_size // heads, query_size=query_size // heads)
        self.context_size = heads * self.inner.context_size
        if not self.context_size:
            raise ValueError(
                f"attention.inner: {type(self.inner).__name__} reads nothing that could stand side by side"
            )
        for name in ("streams", "signed", "sequential", "longest"):
            setattr(self, name, getattr(self.inner, name))
        self.W_s = nn.Linear(state_size, state_size, bias=False)
        self.W_q = nn.Linear(query_size, query_size, bias=False)
        self.W_o = nn.Linear(self.context_size, self.context_size, bias=False)

    def values(self, states: Tensor) -> Tensor:
        """(B, S, D): head after head, before W_o."""
        return self._merge(self.inner.values(self.split(self.W_s(states))))

    def write(self, states: Tensor, mask: Tensor, trace: bool = False) -> Memory:
        return self._side_by_side(self.inner.write(*self._per_head(states, mask), trace=trace))

    def append(self, memory: Memory, states: Tensor, mask: Tensor) -> Memory:
        return self._side_by_side(self.inner.append(self.fold(memory), *self._per_head(states, mask)))

    def read(self, query: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        context, weights = self.inner.read(self.split(self.W_q(query)), self.fold(memory))
        mixed: Tensor = self.W_o(self._merge(context))
        return mixed, self._merge(weights)

    def align(self, weights: Tensor, memory: Memory) -> Tensor:
        each = self.inner.align(self.split(weights), self.fold(memory))
        return each.reshape(-1, self.heads, *each.shape[1:]).mean(1)

    def split(self, joined: Tensor) -> Tensor:
        """(B·H, n, m) of (B, n, H·m)."""
        rows, length, size = joined.shape
        return joined.reshape(rows, length, self.heads, size // self.heads).transpose(1, 2).flatten(0, 1)

    def fold(self, memory: Memory) -> Memory:
        """The memory with one row a head, as ``inner`` knows it: views, no copies."""
        rows = memory.length.shape[0] * self.heads
        fields = {
            name: field.reshape(rows, field.shape[1] // self.heads, *field.shape[2:])
            for name, field in memory._asdict().items()
            if field is not None and name != "length"
        }
        return memory._replace(**fields, length=memory.length.repeat_interleave(self.heads))

    def _merge(self, split: Tensor) -> Tensor:
        """(B, n, H·m) of (B·H, n, m)."""
        return split.reshape(-1, self.heads, *split.shape[1:]).transpose(1, 2).flatten(2)

    def _per_head(self, states: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        return self.split(self.W_s(clear_padding(states, mask))), mask.repeat_interleave(self.heads, dim=0)

    def _side_by_side(self, memory: Memory) -> Memory:
        """The memory with one row a source again: the opposite of ``fold``."""
        fields = {
            name: field.reshape(-1, self.heads * field.shape[1], *field.shape[2:])
            for name, field in memory._asdict().items()
            if field is not None and name != "length"
        }
        return memory._replace(**fields, length=memory.length[:: self.heads])
