"""Settings of a process: of glibc's allocator, and of numbers too small for the usual format of floats.

torch is imported only where it is used: translating with ONNX does without it.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# Names from mallopt(3), values from glibc's malloc.h.
M_TRIM_THRESHOLD = -1
M_MMAP_THRESHOLD = -3
M_MMAP_MAX = -4
MB = 1 << 20


def keep_freed_memory(max_mb: int | None = None) -> bool:
    """Make this process keep the memory it frees. Return False if the C library cannot do it.

    Every step of training and decoding needs the same megabytes as the last one. By default glibc returns each large
    array to the system as soon as it is freed. The system then hands it out again page by page, filled with zeros. That
    took a tenth of a training step on a CPU, and up to a quarter of a decoder step. With ``max_mb``, the process keeps
    at most this number of MB at the end of the heap, and returns arrays of more than 32 MB.
    """
    if sys.platform != "linux":
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # musl does not have it
    if mallopt is None:
        return False
    if max_mb is None:  # all arrays come from the heap, and the heap never shrinks
        return bool(mallopt(M_MMAP_MAX, 0) and mallopt(M_TRIM_THRESHOLD, -1))
    return bool(mallopt(M_MMAP_THRESHOLD, 32 * MB) and mallopt(M_TRIM_THRESHOLD, max_mb * MB))


@contextmanager
def flushed_denormals() -> Iterator[None]:
    """Compute with 0 instead of denormal numbers inside the ``with`` block, in this thread and those that it starts.

    Denormal float32 numbers are below 1.2e-38. They arise in softmax weights and in memories that forget. Intel CPUs
    take about a hundred times as long for an operation on one. The threads of torch's operations start with the first
    large tensor and keep the setting that they start with.
    """
    import torch

    if not bool(torch.tensor(1e-30) * 1e-10 > 0):  # an outer block has set it
        yield
        return
    torch.set_flush_denormal(True)  # without effect if the CPU cannot
    try:
        yield
    finally:
        torch.set_flush_denormal(False)
