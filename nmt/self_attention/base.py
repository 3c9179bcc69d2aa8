"""Base class of all self-attentions: projections and heads around one equation.

Vaswani et al. (2017), Attention Is All You Need, arXiv 1706.03762, §3.2. Letters: B batch, N hypotheses, T positions,
E state, H heads, d = E / H.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor, nn


class Projected(NamedTuple):
    """Queries, keys and values of every head, each (…, H, T, d)."""

    queries: Tensor
    keys: Tensor
    values: Tensor


State = tuple[Tensor, ...]
"""The earlier positions of N hypotheses, as a named tuple of tensors (B, N, …)."""


class SelfAttention(nn.Module):
    """W_o [o¹; …; oᴴ], where every position of head i attends to the other positions of its sequence.

    A kind implements ``both_sides``, ``causal``, ``start`` and ``advance``.
    """

    def __init__(self, *, size: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.W_qkv = nn.Linear(size, 3 * size, bias=False)
        self.W_o = nn.Linear(size, size, bias=False)

    def both_sides(self, projected: Projected, mask: Tensor) -> Tensor:
        """Return o (B, H, T, d), where each position attends to all positions that are True in mask (B, T)."""
        raise NotImplementedError

    def causal(self, projected: Projected) -> Tensor:
        """Return o (B, H, T, d), where each position attends to itself and the positions before it."""
        raise NotImplementedError

    def start(self, like: Tensor) -> State:
        """Return the state before the first position of one hypothesis per sentence; ``like`` (B, …) has the dtype."""
        raise NotImplementedError

    def advance(self, projected: Projected, state: State) -> tuple[Tensor, State]:
        """Return o (B, N, H, 1, d) of one more position, and the state that holds it."""
        raise NotImplementedError

    def forward(self, states: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return the new states (B, T, E) of a complete sequence; without a mask (B, T), causally."""
        projected = self._project(states)
        return self._join(self.causal(projected) if mask is None else self.both_sides(projected, mask))

    def step(self, states: Tensor, state: State) -> tuple[Tensor, State]:
        """Return the new states (B, N, E) of the next position of each hypothesis, and the state after it."""
        output, state = self.advance(self._project(states[:, :, None]), state)
        return self._join(output)[:, :, 0], state

    def _project(self, states: Tensor) -> Projected:
        """Return queries, keys and values of the states (…, T, E)."""
        parts = self.W_qkv(states).chunk(3, dim=-1)
        return Projected(*(part.unflatten(-1, (self.heads, -1)).transpose(-2, -3) for part in parts))

    def _join(self, output: Tensor) -> Tensor:
        """Return W_o [o¹; …; oᴴ] (…, T, E) of the heads' outputs (…, H, T, d)."""
        joined: Tensor = self.W_o(output.transpose(-2, -3).flatten(-2))
        return joined
