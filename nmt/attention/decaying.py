"""Attentions whose later source states change what earlier ones wrote: M ← G_s M + k_s v_sᵀ.

The weight that counts is the one that is left at the end, trace[:, s] = (Π_{j>s} G_j) k_s; with it, slots, mass and
alignment are what they are for every attention.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from nmt.attention.base import Attention, Memory, clear_padding

Fade = Callable[[Tensor], Tensor]
"""(B, R, n) of earlier writes, as later states leave them."""


class DecayingAttention(Attention):
    """A kind supplies ``update``; writing a source is appending it to an empty memory of ``rank`` slots."""

    rank: int  # R

    def update(self, memory: Memory, states: Tensor, mask: Tensor) -> tuple[Fade, Tensor, Tensor]:
        """What states (B, S, E), 0 at padding, leave of ``memory``; their weights (B, R, S) and values (B, S, D)."""
        raise NotImplementedError

    def write(self, states: Tensor, mask: Tensor, trace: bool = False) -> Memory:
        exact = torch.promote_types(states.dtype, torch.float32)
        nothing = states.new_zeros(states.shape[0], self.rank, self.context_size, dtype=exact)
        length = mask.new_zeros(states.shape[0], dtype=torch.int64)
        empty = Memory(nothing, nothing.sum(2), length, trace=nothing[..., :0] if trace else None)
        return self.append(empty, states, mask)

    def append(self, memory: Memory, states: Tensor, mask: Tensor) -> Memory:
        with torch.autocast(states.device.type, enabled=False):  # a product of many factors needs its digits
            states = clear_padding(states, mask).to(memory.slots.dtype)
            fade, weights, values = self.update(memory, states, mask)
            return memory._replace(
                slots=fade(memory.slots) + weights @ values,
                mass=fade(memory.mass[..., None])[..., 0] + weights.sum(2),
                length=memory.length + mask.sum(1),
                trace=None if memory.trace is None else torch.cat([fade(memory.trace), weights], dim=2),
            )
