"""Memory attention with nested slots: the first ones alone are a memory, so K can be chosen after training.

Britz, Guan & Luong (2017), arXiv 1707.00110, with the nested dropout of Rippel, Gelbart & Adams (2014), Learning
Ordered Representations with Nested Dropout, arXiv 1402.0915.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import linear

from nmt.attention.base import Memory, Update
from nmt.attention.memory import MemoryAttention, score


class NestedMemoryAttention(MemoryAttention):
    """Memory attention that trains with the first n of its K slots, n random in each batch, and translates with any n.

    n is K, K/2, K/4 or K/8. It then translates well with numbers between them too; fewer are not trained.

    Both softmaxes run over the n slots only, so n slots compute what an attention with the first n rows of W_α and W_β
    computes. The position encoding of a slot must not depend on n, and n slots must cover the whole source: k/K is
    replaced by 1, 1/2, 3/4, 1/4, 7/8, … If n is a power of 2, these are the n values k/n in another order.
    """

    used: int | None = None
    """Number of slots that are written and read in evaluation; None: all."""

    def use_slots(self, slots: int) -> None:
        """Write and read the first ``slots`` slots only, from now on."""
        if not 1 <= slots <= self.slots:
            raise ValueError(f"this model was trained with {self.slots} slots; use 1 to {self.slots}")
        self.used = slots

    def append(self, memory: Memory, states: Tensor, mask: Tensor) -> Memory:
        if self.training:
            raise ValueError("NestedMemoryAttention: each call in training uses other slots; call eval() first")
        return super().append(memory, states, mask)

    def update(self, memory: Memory, states: Tensor, mask: Tensor) -> Update:
        """Return α (B, S, n)."""
        used = self.random_slots() if self.training else self.used
        scores = linear(states, self.W_alpha.weight[:used])
        if self.position_encoding:
            scores = scores * self.positions(mask, memory.length, scores.dtype)[..., :used]
        return Update(score(self.write_score, scores), states)

    def random_slots(self) -> int:
        """Return K, K/2, K/4 or K/8, rounded down, with equal probability."""
        return max(1, self.slots >> int(torch.randint(4, ())))

    def read_weights(self, query: Tensor, memory: Memory) -> Tensor:
        """Return β (B, Q, n) for the n slots of the memory."""
        return score(self.read_score, linear(query, self.W_beta.weight[: memory.slots.shape[1]]))

    def slot_positions(self, dtype: torch.dtype, device: torch.device) -> Tensor:
        """Return 1 − the van der Corput sequence in base 2 (K,): the bit-reversed k − 1, as a fraction."""
        digits = torch.arange(self.slots, device=device)
        positions = torch.ones(self.slots, device=device)
        value = 1.0
        for _ in range((self.slots - 1).bit_length()):
            value /= 2
            positions = positions - value * (digits % 2)
            digits = digits // 2
        return positions.to(dtype)
