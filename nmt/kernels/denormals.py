"""Numbers too small for the usual format of floats, which some CPUs compute with slowly."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from nmt.kernels import enabled


@contextmanager
def flushed_denormals() -> Iterator[None]:
    """Compute with 0 instead of denormal numbers inside the ``with`` block, in this thread and those that it starts.

    Denormal float32 numbers are below 1.2e-38. They arise in softmax weights and in memories that forget. Intel CPUs
    take about a hundred times as long for an operation on one. The threads of torch's operations start with the first
    large tensor and keep the setting that they start with.
    """
    if not enabled() or not _has_denormals():
        yield
        return
    torch.set_flush_denormal(True)  # without effect if the CPU cannot
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


def _has_denormals() -> bool:
    return bool(torch.tensor(1e-30) * 1e-10 > 0)
