"""Temporary files and folders of processes that were killed.

A temporary name is ``.NAME.PROCESS.partial``. Its writer holds a lock on it, which the operating system releases when
the process ends, however it ends.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows has no such locks: temporary files of killed processes stay there
    fcntl = None  # type: ignore[assignment]

ABANDONED_S = 3600  # a temporary folder this old is abandoned even if another process now has its writer's number
TEMPORARY = re.compile(r"\.(?P<target>.+)\.(?P<process>[0-9]+)(\.old)?\.partial")


def temporary_name(path: Path) -> Path:
    """Return the name beside ``path`` under which this process writes what will replace ``path``."""
    return path.with_name(f".{path.name}.{os.getpid()}.partial")


@contextmanager
def hold(temporary: Path) -> Iterator[None]:
    """Lock an existing temporary file or folder during the block, so that no other process deletes it."""
    if fcntl is None:
        yield
        return
    descriptor = os.open(temporary, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def remove_leftovers(target: Path) -> None:
    """Delete abandoned temporary files beside ``target``, and abandoned temporary folders for ``target`` itself."""
    if fcntl is None:
        return
    try:
        names = os.listdir(target.parent)
    except OSError:
        return  # the write will report the error
    for name in names:
        if match := TEMPORARY.fullmatch(name):
            path = target.parent / name
            if (match["target"] == target.name or path.is_file()) and _is_abandoned(path, match["process"]):
                with suppress(OSError):
                    shutil.rmtree(path) if path.is_dir() else path.unlink()


def _is_abandoned(path: Path, process: str) -> bool:
    """Return whether nobody writes ``path`` any more.

    The number alone does not say so: in another container, or on another machine that shares the folder, it may belong
    to a running process. The lock alone does not either, because not all file systems have locks.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return not _is_running(process) or time.time() - os.fstat(descriptor).st_mtime > ABANDONED_S
    except OSError:
        return False
    finally:
        os.close(descriptor)


def _is_running(process: str) -> bool:
    try:
        os.kill(int(process), 0)
    except (ProcessLookupError, OverflowError, ValueError):
        return False
    except PermissionError:
        pass  # a process of another user
    return True
