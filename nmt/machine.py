"""The cores and the memory of this machine that a process can use."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

# Limits of a container, in control groups of version 2 and 1.
LIMIT_FILES = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def usable_cores() -> int:
    """Return the number of cores that this process may use; macOS and Windows only report the number of all cores."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def available_memory() -> int | None:
    """Return the number of bytes of memory and swap that are free or can be freed; None if the system does not say.

    On Linux, the limits of a container and of ``ulimit -v`` count too. Elsewhere it is all memory of the machine.
    """
    limits = [*_linux_memory(), *_container_limits(), *_process_limit()]
    return min(limits) if limits else _all_memory()


def _linux_memory() -> list[int]:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii")
    except OSError:
        return []
    kilobytes = {name: int(number) for name, number in re.findall(r"^(\w+): +(\d+) kB$", lines, re.MULTILINE)}
    return [1024 * (kilobytes["MemAvailable"] + kilobytes.get("SwapFree", 0))] if "MemAvailable" in kilobytes else []


def _container_limits() -> list[int]:
    texts = []
    for file in LIMIT_FILES:
        try:
            texts.append(Path(file).read_text(encoding="ascii").strip())
        except OSError:
            continue
    return [int(text) for text in texts if text.isdecimal()]


def _process_limit() -> list[int]:
    try:
        from resource import RLIM_INFINITY, RLIMIT_AS, getrlimit
    except ImportError:  # Windows
        return []
    soft, _ = getrlimit(RLIMIT_AS)
    return [] if soft == RLIM_INFINITY else [soft]


def _all_memory() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf
        return None


def peak_memory_mb() -> float | None:
    """Return the largest resident memory of this process in MB; None where the system does not report it."""
    try:  # ``getrusage`` would include the memory of the parent process, which this process was copied from
        status = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
        return next(int(line.split()[1]) / 2**10 for line in status if line.startswith("VmHWM"))
    except (OSError, StopIteration, ValueError):
        pass
    try:
        import resource
    except ImportError:  # Windows
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
