"""Base class of attentions whose later source states change what earlier ones wrote: M ← G_s M + k_s v_sᵀ.

Later states decay less, so reads recall them better.

The trace holds the weight that remains at the end of the source, trace[:, s] = (Π_{j>s} G_j) k_s. With it, slots, mass
and alignment obey the same equations as for every attention.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, normalize

from nmt.attention.base import Attention, Memory, clear_padding, require_queries

Decay = Callable[[Tensor], Tensor]
"""Function that applies the product of all G to the columns (B, R, n) of an earlier memory."""


class Update(NamedTuple):
    """The change that the next states make to a memory: M ← decay(M) + weights · values."""

    decay: Decay
    weights: Tensor  #: (B, R, S)  of the states, as they remain after the last of them
    values: Tensor  #: (B, S, D)


class DecayingAttention(Attention):
    """Base class of attentions whose later source states change what earlier ones wrote.

    A subclass implements ``update``. Writing a source means appending it to an empty memory of ``rank`` slots.
    """

    rank: int  #: number of slots

    def update(self, memory: Memory, states: Tensor, mask: Tensor) -> Update:
        """Return the update of ``memory`` by the states (B, S, E).

        States are 0 at padding, and float32 even if the parameters are in half precision; ``project`` allows this.
        """
        raise NotImplementedError

    def empty(self, states: Tensor, trace: bool) -> Memory:
        """Return the memory before the first of the states (B, S, E)."""
        exact = torch.promote_types(states.dtype, torch.float32)
        zeros = states.new_zeros(states.shape[0], self.rank, self.context_size, dtype=exact)
        length = torch.zeros(states.shape[0], dtype=torch.int64, device=states.device)
        return Memory(zeros, zeros.sum(2), length, trace=zeros[..., :0] if trace else None)

    def write(self, states: Tensor, mask: Tensor, trace: bool = False) -> Memory:
        return self.append(self.empty(states, trace), states, mask)

    def append(self, memory: Memory, states: Tensor, mask: Tensor) -> Memory:
        with torch.autocast(states.device.type, enabled=False):  # a product of many factors needs full precision
            states = clear_padding(states, mask).to(memory.slots.dtype)
            decay, weights, values = self.update(memory, states, mask)
            return memory._replace(
                slots=decay(memory.slots) + weights @ values,
                mass=decay(memory.mass[..., None])[..., 0] + weights.sum(2),
                length=memory.length + mask.sum(1),
                keys=None if memory.keys is None else decay(memory.keys),
                trace=None if memory.trace is None else torch.cat([decay(memory.trace), weights], dim=2),
            )

    def read(self, query: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        require_queries(query)
        weights = self.read_weights(query, memory)
        return (weights.to(memory.slots.dtype) @ memory.slots).to(weights.dtype), weights

    def align(self, weights: Tensor, memory: Memory) -> Tensor:
        return super().align(weights.to(memory.slots.dtype), memory)


def project(layer: nn.Linear, states: Tensor) -> Tensor:
    """Return ``layer(states)`` in the precision of the states, which may exceed that of the layer's parameters."""
    if layer.weight.dtype == states.dtype:
        return cast(Tensor, layer(states))
    bias = None if layer.bias is None else layer.bias.to(states.dtype)
    return linear(states, layer.weight.to(states.dtype), bias)


def unit(vectors: Tensor) -> Tensor:
    """Return the vectors (…, A) divided by their lengths, at least in float32; zeros stay zeros.

    In float16, the square of a small number is 0, and so is the epsilon of ``normalize``.
    """
    return normalize(vectors.to(torch.promote_types(vectors.dtype, torch.float32)), dim=-1)
