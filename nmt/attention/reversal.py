"""Reverse sources within their own lengths."""

from __future__ import annotations

import torch
from torch import Tensor


def reversal(lengths: Tensor, size: int) -> Tensor:
    """Return an index (B, S) that reverses the first ``lengths`` positions of each row and keeps the padding."""
    position = torch.arange(size, device=lengths.device).expand(lengths.shape[0], size)
    mirrored = lengths[:, None] - 1 - position
    return torch.where(mirrored >= 0, mirrored, position)


def take(states: Tensor, index: Tensor) -> Tensor:
    """Return ``states`` (B, S, D) at the positions ``index`` (B, Q), as (B, Q, D)."""
    return states.gather(1, index[..., None].expand(-1, -1, states.shape[2]))
