"""Write weights that are a softmax over the source positions, also if the source arrives in parts.

Milakov & Gimelshein (2018), Online normalizer calculation for softmax, arXiv 1805.02867.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from nmt.attention.base import Memory, clear_padding


def write_softmax(scores: Tensor, values: Tensor, mask: Tensor, trace: bool) -> Memory:
    """Return the memory of scores (B, S, R) and values (B, S, D), with write weights exp(score − peak).

    They cannot overflow. Divided by the mass, they are the softmax. The peak needs no gradient: it would cancel. A
    source without states gets the lowest number as its peak.
    """
    lowest = torch.finfo(scores.dtype).min
    scores = scores.masked_fill(~mask[..., None], lowest)
    peak = pad(scores.detach(), (0, 0, 0, 1), value=lowest).amax(1)
    weights = clear_padding((scores - peak[:, None]).exp(), mask).transpose(1, 2)
    return Memory(weights @ values, weights.sum(2), mask.sum(1), peak=peak, trace=weights if trace else None)


def rescale(memory: Memory, peak: Tensor) -> Memory:
    """Return the same memory with weights relative to ``peak``."""
    assert memory.peak is not None
    factor = (memory.peak - peak).exp()
    return memory._replace(
        slots=memory.slots * factor[..., None],
        mass=memory.mass * factor,
        peak=peak,
        trace=None if memory.trace is None else memory.trace * factor[..., None],
    )


def to_common_peak(memory: Memory, other: Memory) -> tuple[Memory, Memory]:
    """Return both memories relative to the higher of their peaks, if they have any, so that they can be added."""
    if memory.peak is None or other.peak is None:
        return memory, other
    peak = torch.maximum(memory.peak, other.peak)
    return rescale(memory, peak), rescale(other, peak)


def nonzero(divisor: Tensor) -> Tensor:
    """Return the divisor, with 1 for a source without states, so that its contexts are 0 and not NaN."""
    return divisor.where(divisor > 0, 1)
