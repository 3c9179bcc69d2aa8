"""An attention for each layer of a decoder: Vaswani et al. (2017), arXiv 1706.03762, §3.2.3."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

import torch
from torch import Tensor, nn, unflatten

from nmt.attention.base import Attention, Memory, slot_fields


class LayeredAttention(Attention):
    """L attentions with equal settings, each of which a layer of the decoder reads.

    Their memories form one, whose fields except ``length`` have an axis of layers, (B, L, …). Their read weights follow
    each other, (B, Q, L·R). The alignment is the mean of the layers' alignments.
    """

    def __init__(self, *, layers: list[Attention]) -> None:
        super().__init__()
        first = layers[0]
        self.layers = cast(Sequence[Attention], nn.ModuleList(layers))
        self.context_size, self.reads_source = first.context_size, first.reads_source
        self.streaming, self.signed, self.needs_trace = first.streaming, first.signed, first.needs_trace

    def write(self, states: Tensor, mask: Tensor, trace: bool = False) -> Memory:
        random, memories = torch.get_rng_state() if self.training else None, []
        for layer in self.layers:
            if random is not None:
                torch.set_rng_state(random)  # nested memories draw a number of slots, which must be the same
            memories.append(layer.write(states, mask, trace=trace))
        return _stack(memories)

    def append(self, memory: Memory, states: Tensor, mask: Tensor) -> Memory:
        pairs = zip(self.layers, self.memories(memory), strict=True)
        return _stack([layer.append(own, states, mask) for layer, own in pairs])

    def align(self, weights: Tensor, memory: Memory) -> Tensor:
        parts = unflatten(weights, 2, (len(self.layers), -1)).unbind(2)
        layers = zip(self.layers, parts, self.memories(memory), strict=True)
        return torch.stack([layer.align(part, own) for layer, part, own in layers]).mean(0)

    def memories(self, memory: Memory) -> Iterator[Memory]:
        """Yield the memory of each layer, as views of the fields."""
        for number in range(len(self.layers)):
            yield memory._replace(**{name: field[:, number] for name, field in slot_fields(memory)})


def _stack(memories: Sequence[Memory]) -> Memory:
    names = [name for name, _ in slot_fields(memories[0])]
    return memories[0]._replace(**{name: torch.stack([getattr(own, name) for own in memories], 1) for name in names})
