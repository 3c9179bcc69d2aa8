"""Training with products in bfloat16, half as many bytes a number and twice the rate, and weights in float32."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import torch
from pytorch_lightning.plugins.precision import Precision


class Bfloat16(Precision):
    """What Lightning calls bf16-mixed, but for its ban on fused optimizers: without scaled gradients they may clip."""

    precision: Literal["bf16-mixed"] = "bf16-mixed"

    def __init__(self, device: torch.device) -> None:
        self.device = device

    @contextmanager
    def forward_context(self) -> Iterator[None]:
        # No cache of weights in bfloat16: one that is filled without gradients would later be used with them.
        with torch.autocast(self.device.type, torch.bfloat16, cache_enabled=False):
            yield


def slowdown() -> float:
    """How many times as long a product takes in bfloat16 as in float32: above 1 on a CPU that has to emulate it."""
    found = []
    for dtype in (torch.bfloat16, torch.float32):
        x = torch.ones(512, 512, dtype=dtype)
        found.append(min(_seconds(x) for _ in range(5)))
    return found[0] / found[1]


def _seconds(x: torch.Tensor) -> float:
    started = time.perf_counter()
    (x @ x).sum().item()
    return time.perf_counter() - started
