"""Training with products in bfloat16 and weights in float32."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import torch
from pytorch_lightning.plugins.precision import Precision


class Bfloat16(Precision):
    """Lightning's bf16-mixed with fused optimizers, which Lightning forbids for the sake of gradient scaling.

    bfloat16 needs no gradient scaling, so gradients can be clipped as usual.
    """

    precision: Literal["bf16-mixed"] = "bf16-mixed"

    def __init__(self, device: torch.device) -> None:
        self.device = device

    @contextmanager
    def forward_context(self) -> Iterator[None]:
        # No cache of bfloat16 weights: entries from a validation without gradients would be used in training.
        with torch.autocast(self.device.type, torch.bfloat16, cache_enabled=False):
            yield


def has_bfloat16_lstm() -> bool:
    """Return whether this CPU can run an LSTM in bfloat16. oneDNN needs AVX-512 for it."""
    try:
        with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
            torch.nn.LSTM(8, 8)(torch.zeros(1, 1, 8))
    except RuntimeError:  # could not create a primitive descriptor
        return False
    return True


def slowdown() -> float:
    """Return the duration of a bfloat16 product divided by that of a float32 product."""
    seconds = []
    for dtype in (torch.bfloat16, torch.float32):
        x = torch.ones(512, 512, dtype=dtype)
        seconds.append(min(_seconds(x) for _ in range(5)))
    return seconds[0] / seconds[1]


def _seconds(x: torch.Tensor) -> float:
    started = time.perf_counter()
    (x @ x).sum().item()
    return time.perf_counter() - started
