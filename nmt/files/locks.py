"""Lock a folder, so that only one process at a time writes into it."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nmt.errors import UserError

LOCK_FILE = ".lock"
HELD = (errno.EACCES, errno.EAGAIN, errno.EDEADLK)  # flock raises EAGAIN, Windows the other two


@contextmanager
def lock_folder(folder: Path, *, busy: str) -> Iterator[None]:
    """Hold the lock of ``folder`` while the block runs.

    Raises UserError if another process holds it; ``busy`` says what that process does, and what to do about it. The
    system releases the lock when its process ends, in whatever way. So the file that stays behind blocks nobody.
    """
    no_links = getattr(os, "O_NOFOLLOW", 0)
    with os.fdopen(os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | no_links, 0o644), "r+b") as file:
        if not _acquire(file.fileno()):
            number = file.read(20).strip()
            holder = f"process {int(number)}" if number.isdigit() else "another process"
            raise UserError(f"{folder}: {holder} {busy}")
        file.truncate(0)
        file.seek(0)
        file.write(f"{os.getpid()}\n".encode())
        file.flush()
        yield


def _acquire(file: int) -> bool:
    """Lock the open file. Return False if it is locked, and True also on a file system that has no locks."""
    try:
        if sys.platform == "win32":
            import msvcrt

            os.lseek(file, 1 << 20, os.SEEK_SET)  # a locked byte cannot be read, so this is not the process number's
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
            os.lseek(file, 0, os.SEEK_SET)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in HELD
    return True
