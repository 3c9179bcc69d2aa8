"""Dropout that draws a quarter of the random numbers that torch draws on a CPU."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

LEVELS = 1 << 16


def dropout(x: Tensor, p: float, training: bool) -> Tensor:
    """Set each element to 0 with probability p and divide the others by 1 − p, like ``functional.dropout``.

    On a CPU torch draws one random number for each element. Here one draw of 64 bits decides four elements, which takes
    a fifth of the time. p is therefore rounded to a multiple of 1/65,536.
    """
    if not training:
        return x
    if x.device.type != "cpu" or torch.compiler.is_compiling():
        return functional.dropout(x, p)
    dropped = round(p * LEVELS)
    if dropped == 0:
        return x
    draws = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(1 << 63), None)
    bits = draws.view(torch.int16)[: x.numel()].view(x.shape)
    kept = (bits > dropped - LEVELS // 2 - 1).to(x.dtype)
    return x * kept.mul_(LEVELS / max(1, LEVELS - dropped))


class Dropout(nn.Dropout):
    """``nn.Dropout`` that uses ``dropout`` of this file."""

    def forward(self, input: Tensor) -> Tensor:
        return dropout(input, self.p, self.training)
