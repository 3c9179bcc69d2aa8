"""Memory that a training step frees, kept for the next one."""

from __future__ import annotations

import ctypes
import sys

# The names are those of mallopt(3), the numbers those of glibc's malloc.h.
M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4


def keep_freed_memory() -> bool:
    """Let this process keep what it frees; False where the C library cannot be told.

    Every training step needs the same tens of megabytes as the last one. Left to itself glibc returns each large array
    to the system as soon as it is freed, and the system hands it out again page by page, every page filled with zeros:
    a tenth of the time of a step on a CPU.
    """
    if sys.platform != "linux":
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # musl, for one, has none
    if mallopt is None:
        return False
    # No array gets a mapping of its own, and the heap, where all are then, never shrinks.
    return bool(mallopt(M_MMAP_MAX, 0) and mallopt(M_TRIM_THRESHOLD, -1))
