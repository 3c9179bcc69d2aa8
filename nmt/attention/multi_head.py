"""Several attentions in parallel, each with its own projections of source and query.

Vaswani et al. (2017), Attention Is All You Need, arXiv 1706.03762, §3.2.2.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn, unflatten

from nmt.attention.base import Attention, Memory, SourceAttention, clear_padding, slot_fields
from nmt.settings.arguments import Size


class MultiHeadAttention(Attention):
    """H heads of another attention, in parallel.

    The context is [c¹; …; cᴴ], where head i is the ``inner`` attention over W_sⁱ h and W_qⁱ q, each of size E/H. The
    decoder multiplies it by W_o, as it does with any context.

    ``inner`` builds any attention, given ``state_size`` and ``query_size``. Heads are rows of its batch, so all heads
    share its parameters and differ in their projections. The slots of the heads follow each other, (B, H·R, D/H). The
    alignment is the mean of the heads' alignments.

    A head whose ``inner`` compares queries with the source states mixes values W_vⁱ h of its own. With
    ``LuongAttention(score="scaled_dot")`` inside, this is the paper's attention.
    """

    def __init__(
        self,
        *,
        state_size: Size,
        query_size: Size,
        inner: Callable[..., Attention],
        heads: Size = 8,
    ) -> None:
        super().__init__()
        if state_size % heads:
            raise ValueError(
                f"attention.heads={heads}: must divide encoder.hidden_size={state_size}; change one of them"
            )
        self.heads = heads
        try:
            self.inner = inner(state_size=state_size // heads, query_size=state_size // heads)
        except ValueError as error:
            raise ValueError(str(error).replace("attention.", "attention.inner.")) from None
        if not self.inner.reads_source:
            name = type(self.inner).__name__
            raise ValueError(f"attention.inner={name}: has no contexts to join; choose another, or attention=none")
        self.context_size = heads * self.inner.context_size
        self.streaming = self.inner.streaming
        self.signed = self.inner.signed
        self.needs_trace = self.inner.needs_trace
        self.W_s = nn.Linear(state_size, state_size, bias=False)
        self.W_q = nn.Linear(query_size, state_size, bias=False)
        has_values = isinstance(self.inner, SourceAttention)
        self.W_v = nn.Linear(state_size, state_size, bias=False) if has_values else None

    def write(self, states: Tensor, mask: Tensor, trace: bool = False) -> Memory:
        memory = self.inner.write(*self._project(states, mask), trace=trace)
        if self.W_v is not None:
            keys = memory.slots if memory.keys is None else memory.keys
            memory = memory._replace(slots=self.split_heads(self.W_v(clear_padding(states, mask))), keys=keys)
        return self._join_memory(memory)

    def append(self, memory: Memory, states: Tensor, mask: Tensor) -> Memory:
        return self._join_memory(self.inner.append(self.split_memory(memory), *self._project(states, mask)))

    def read(self, query: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        context, weights = self.inner.read(self.split_heads(self.W_q(query)), self.split_memory(memory))
        return self._join_heads(context), self._join_heads(weights)

    def align(self, weights: Tensor, memory: Memory) -> Tensor:
        alignments = self.inner.align(self.split_heads(weights), self.split_memory(memory))
        return unflatten(alignments, 0, (-1, self.heads)).mean(1)

    def split_heads(self, joined: Tensor) -> Tensor:
        """Return (B, n, H·m) as (B·H, n, m)."""
        return unflatten(joined, 2, (self.heads, -1)).transpose(1, 2).flatten(0, 1)

    def split_memory(self, memory: Memory) -> Memory:
        """Return the memory with one row per head, as ``inner`` wrote it. The fields are views, except ``length``."""
        fields = {name: unflatten(field, 1, (self.heads, -1)).flatten(0, 1) for name, field in slot_fields(memory)}
        return memory._replace(**fields, length=memory.length.repeat_interleave(self.heads))

    def _join_heads(self, split: Tensor) -> Tensor:
        """Return (B·H, n, m) as (B, n, H·m)."""
        return unflatten(split, 0, (-1, self.heads)).transpose(1, 2).flatten(2)

    def _join_memory(self, memory: Memory) -> Memory:
        """Return the memory with one row per source; the inverse of ``split_memory``."""
        fields = {name: unflatten(field, 0, (-1, self.heads)).flatten(1, 2) for name, field in slot_fields(memory)}
        return memory._replace(**fields, length=memory.length[:: self.heads])

    def _project(self, states: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Return W_s h (B·H, S, E/H) and the mask (B·H, S), one row per head."""
        return self.split_heads(self.W_s(clear_padding(states, mask))), mask.repeat_interleave(self.heads, dim=0)
