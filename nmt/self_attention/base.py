"""Base class of all self-attentions: projections and heads around one equation.

Vaswani et al. (2017), Attention Is All You Need, arXiv 1706.03762, §3.2. Letters: B batch, N hypotheses, T positions,
E state, H heads, d = E / H.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from torch import Tensor, nn

from nmt.settings.arguments import CheckedArguments


class Projected(NamedTuple):
    """Queries, keys and values of every head, each (…, H, T, d)."""

    queries: Tensor
    keys: Tensor
    values: Tensor


State = tuple[Tensor, ...]
"""The earlier positions of N hypotheses, as a named tuple of tensors (B, N, …)."""


class SelfAttention(CheckedArguments, nn.Module):
    """W_o [o¹; …; oᴴ], where every position of head i attends to the other positions of its sequence.

    A subclass implements ``both_sides`` and, for decoders, ``causal``, ``start`` and ``advance``. A
    constructor accepts ``size`` and ``heads``, and ``max_length`` if it needs the length of the longest training
    source; its other arguments are the keys of its YAML file.
    """

    projections: ClassVar[int] = 3
    """Queries, keys and values."""

    def __init__(self, *, size: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.W_qkv = nn.Linear(size, self.projections * size, bias=False)
        self.W_o = nn.Linear(size, size, bias=False)

    @property
    def head_size(self) -> int:
        return self.W_o.in_features // self.heads

    def both_sides(self, projected: Projected, mask: Tensor) -> Tensor:
        """Return o (B, H, T, d), where each position attends to all positions that are True in mask (B, T)."""
        raise NotImplementedError

    def causal(self, projected: Projected) -> Tensor:
        """Return o (B, H, T, d), where each position attends to itself and the positions before it."""
        raise NotImplementedError

    def start(self, like: Tensor) -> State:
        """Return the state before the first position of one hypothesis per sentence; ``like`` (B, …) has the dtype."""
        raise NotImplementedError

    def zeros(self, like: Tensor, count: int = 0) -> Tensor:
        """Return zeros (B, 1, H, count, d) for each sentence of ``like`` (B, …), in its dtype."""
        return like.new_zeros(like.shape[0], 1, self.heads, count, self.head_size)

    def advance(self, projected: Projected, state: State) -> tuple[Tensor, State]:
        """Return o (B, N, H, 1, d) of one more position, and the state that holds it."""
        raise NotImplementedError

    def forward(self, states: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return the new states (B, T, E) of a complete sequence; without a mask (B, T), causally."""
        projected = self.project(states)
        return self._join(self.causal(projected) if mask is None else self.both_sides(projected, mask))

    def step(self, states: Tensor, state: State) -> tuple[Tensor, State]:
        """Return the new states (B, N, E) of the next position of each hypothesis, and the state after it."""
        output, state = self.advance(self.project(states[:, :, None]), state)
        joined: Tensor = self.W_o(output.flatten(2))
        return joined, state

    def project(self, states: Tensor) -> Projected:
        """Return queries, keys and values of the states (…, T, E)."""
        return Projected(*self.split_heads(states))

    def split_heads(self, states: Tensor) -> list[Tensor]:
        """Return the projections of the states (…, T, E), each (…, H, T, d)."""
        joined = self.W_qkv(states).unflatten(-1, (self.projections * self.heads, -1))
        return list(joined.transpose(-2, -3).chunk(self.projections, dim=-3))

    def _join(self, output: Tensor) -> Tensor:
        """Return W_o [o¹; …; oᴴ] (…, T, E) of the heads' outputs (…, H, T, d)."""
        joined: Tensor = self.W_o(output.transpose(-2, -3).flatten(-2))
        return joined
