"""Settings of glibc's allocator that let a training step reuse the memory of the last one."""

from __future__ import annotations

import ctypes
import sys

from nmt.kernels import enabled

# Names from mallopt(3), values from glibc's malloc.h.
M_TRIM_THRESHOLD = -1
M_MMAP_MAX = -4


def keep_freed_memory() -> bool:
    """Make this process keep the memory it frees. Return False if the switch is off or the C library cannot do it.

    Every training step needs the same tens of megabytes as the last one. By default glibc returns each large array to
    the system as soon as it is freed. The system then hands it out again page by page, filled with zeros. That took a
    tenth of a training step on a CPU.
    """
    if not enabled() or sys.platform != "linux":
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # musl does not have it
    if mallopt is None:
        return False
    # All arrays come from the heap, and the heap never shrinks.
    return bool(mallopt(M_MMAP_MAX, 0) and mallopt(M_TRIM_THRESHOLD, -1))
