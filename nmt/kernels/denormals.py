"""Numbers too small for the usual format of floats, which some CPUs compute with slowly."""

from __future__ import annotations

import torch

from nmt.kernels import enabled


def flush_denormals() -> bool:
    """Make this thread compute with 0 instead of denormal numbers. Return False if the switch is off or the CPU cannot.

    Denormal float32 numbers are below 1.2e-38. They arise in softmax weights and in memories that forget. Intel CPUs
    take about a hundred times as long for an operation on one. Threads that this thread starts later do the same, so
    call this before the first operation on a large tensor.
    """
    return enabled() and torch.set_flush_denormal(True)
