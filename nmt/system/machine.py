"""The cores and the memory of this machine that a process can use, and its processor."""

from __future__ import annotations

import gc
import math
import os
import platform
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")  # control groups, version 2
CPUINFO = Path("/proc/cpuinfo")
# Only the text of the message tells: torch has no exception class for this on a CPU, and onnxruntime has none at all.
# "can't allocate memory" is torch's text on Linux.
# The last three come from loading a library and from starting a thread, in Python and in C++.
OUT_OF_MEMORY = (
    *("not enough memory", "out of memory", "allocate memory", "bad_alloc", "bad allocation"),
    *("failed to map segment", "can't start new thread", "thread constructor failed"),
)


def usable_cores() -> int:
    """Return the number of threads that this process should use.

    It is the number of cores that the process may run on, or less: OMP_NUM_THREADS, or the CPU quota of a container,
    rounded up. macOS and Windows only report the number of all cores.
    """
    limits = [allowed_cores(), _omp_threads(), cpu_quota()]
    return max(1, math.ceil(min(limit for limit in limits if limit is not None)))


def allowed_cores() -> int:
    """Return the number of cores that the system lets this process run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


_limited = [False]  # True in a child that was forked after torch was loaded


@cache
def guard_forks() -> None:
    """Let torch compute with one thread in children that are forked from now on.

    The threads of OpenMP end in a fork. A child that uses them waits for ever. With one thread, it does not use them.
    """
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_limit_torch)


def _limit_torch() -> None:
    if limit := getattr(sys.modules.get("torch"), "set_num_threads", None):
        limit(1)
        _limited[0] = True


def torch_threads(threads: int) -> int:
    """Return ``threads``, or 1 with a warning in a child that was forked after torch was loaded."""
    if threads > 1 and _limited[0]:
        fix = 'start it with multiprocessing.get_context("spawn"), or set threads=1'
        warnings.warn(
            f"threads={threads}: this process was forked after torch was loaded, so it uses 1 thread; {fix}",
            stacklevel=3,
        )
        return 1
    return threads


def _omp_threads() -> int | None:
    """Return OMP_NUM_THREADS, which may be a list of one number per level of nesting; None without a number."""
    first = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return int(first) if first.isdecimal() and int(first) > 0 else None


@cache
def cpu_quota() -> float | None:
    """Return the CPU quota of this process's control groups, in cores, such as 1.5; None without a limit.

    docker run --cpus, Kubernetes and systemd set them: a process sees all cores, but is paused when it has used
    its time.
    """
    quotas = [quota for group in _control_groups() if (quota := _quota(group / "cpu.max")) is not None]
    return min(quotas, default=None)


def _control_groups() -> list[Path]:
    """Return the folders of the control group of this process and of all those around it."""
    try:
        path = Path("/proc/self/cgroup").read_text(encoding="utf-8").rpartition("::")[2].strip()
    except (OSError, ValueError):
        path = "/"
    inner = CGROUPS / path.lstrip("/")
    return [inner, *(folder for folder in inner.parents if folder.is_relative_to(CGROUPS))]


def _quota(file: Path) -> float | None:
    """Return quota / period of a control group; None without a limit."""
    try:
        quota, period = map(int, file.read_text(encoding="ascii").split())
        return quota / period
    except (OSError, ValueError, ZeroDivisionError):  # "max": no limit
        return None


def available_memory() -> int | None:
    """Return the number of bytes of memory and swap that are free or can be freed; None if the system does not say.

    On Linux, the limit of a container counts too. Elsewhere it is all memory of the machine.
    """
    limits = []
    with suppress(OSError, ValueError):
        limits.append(int((CGROUPS / "memory.max").read_text(encoding="ascii")))  # "max": no limit
    with suppress(OSError, KeyError):
        text = Path("/proc/meminfo").read_text(encoding="ascii")
        kilobytes = dict(re.findall(r"^(\w+): +(\d+) kB$", text, re.MULTILINE))
        limits.append(1024 * (int(kilobytes["MemAvailable"]) + int(kilobytes.get("SwapFree", 0))))
    if not limits:
        with suppress(AttributeError, ValueError, OSError):  # Windows has no sysconf
            limits.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    return min(limits, default=None)


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether ``error``, or the error that it was raised from, means that no memory was left."""
    return any(
        isinstance(cause, MemoryError) or any(text in str(cause).lower() for text in OUT_OF_MEMORY)
        for cause in (error, error.__cause__)
        if cause is not None
    )


def peak_memory_mb() -> float | None:
    """Return the largest resident memory of this process in MB of 10⁶ bytes; None where the system reports none."""
    # ``getrusage`` would include the memory of the parent process on Linux, which this process was copied from.
    with suppress(OSError, AttributeError):
        status = Path("/proc/self/status").read_text(encoding="utf-8")
        return int(re.search(r"^VmHWM:\s+(\d+) kB", status, re.MULTILINE)[1]) * 1024 / 10**6  # type: ignore[index]
    with suppress(ImportError):  # Windows
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 10**6  # macOS counts bytes
    return None


def processor_name() -> str:
    """Return the processor's name; Linux reports it in a file only."""
    name = None
    if CPUINFO.is_file():
        name = re.search(r"^model name\s*: (.+)$", CPUINFO.read_text(encoding="utf-8"), re.MULTILINE)
    return name[1] if name else platform.processor() or platform.machine()


def installed(package: str) -> str | None:
    """Return the version of an installed package, or None."""
    from importlib.metadata import PackageNotFoundError, version  # slow to import

    try:
        return version(package)
    except PackageNotFoundError:
        return None


@contextmanager
def paused_collector() -> Iterator[None]:
    """Pause the collection of reference cycles during work that makes many objects and few cycles."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
