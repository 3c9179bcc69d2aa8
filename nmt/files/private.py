"""Private temporary folders beside an output, and the removal of those that killed processes left.

A private folder is called ``.nmt-RANDOM.partial``, and nobody but its owner can open it. Its file ``MARK`` names the
process that has made it. This process holds a lock on the file, which the operating system releases when the process
ends, however it ends.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

MARK = "written-by-nmt.json"
NAME = re.compile(r"\.nmt-[0-9a-f]{16}\.partial")
HELD = (errno.EACCES, errno.EAGAIN, errno.EDEADLK)  # flock raises EAGAIN, Windows the other two
ABANDONED_S = 3600  # a folder this old is abandoned even if another process now has its writer's number
NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)  # Windows has neither
NEW_FILE = os.O_RDWR | os.O_CREAT | os.O_EXCL | NO_LINK | getattr(os, "O_BINARY", 0)


@contextmanager
def private_folder(parent: Path) -> Iterator[Path]:
    """Yield a new private folder in ``parent``, which is deleted after the block with all that is left in it.

    Whoever can write into ``parent`` can rename the folder and put a link in its place. On Linux, the path that is
    yielded leads to the folder all the same.
    """
    remove_leftovers(parent)
    path = parent / f".nmt-{os.urandom(8).hex()}.partial"
    os.mkdir(path, 0o700)
    try:
        with _opened(path) as inside, _marked(inside):
            try:
                yield inside
            finally:
                _empty(inside)
    finally:
        with suppress(OSError):
            os.rmdir(path)


@contextmanager
def _marked(folder: Path) -> Iterator[None]:
    """Mark and lock a private folder during the block."""
    descriptor = os.open(folder / MARK, NEW_FILE, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as mark:
            _require_new(folder, os.fstat(mark.fileno()))
            lock_file(mark.fileno())
            mark.write(json.dumps({"process": os.getpid(), "host": _host()}).encode())
            mark.flush()
            yield
    finally:
        (folder / MARK).unlink(missing_ok=True)


@contextmanager
def _opened(path: Path) -> Iterator[Path]:
    """Yield a path to the content of the folder ``path`` that stays valid when the folder is renamed."""
    if os.name == "nt":  # Windows cannot open a folder
        yield path
        return
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | NO_LINK)
    try:
        anchored = Path(f"/proc/self/fd/{descriptor}")
        with suppress(OSError):
            if os.path.samestat(os.stat(anchored), os.fstat(descriptor)):
                path = anchored
        yield path
    finally:
        os.close(descriptor)


def _require_new(folder: Path, mark: os.stat_result) -> None:
    """Raise OSError unless the folder was made by this process: a stranger could replace it before it was opened.

    It must hold nothing but the mark, with the same owner, and be private unless the file system ignores permissions.
    """
    status = os.stat(folder)
    shared = status.st_mode & 0o77 and not mark.st_mode & 0o77
    if os.listdir(folder) != [MARK] or status.st_uid != mark.st_uid or shared:
        raise OSError(errno.ESTALE, "another process has replaced the temporary folder")


def _empty(folder: Path) -> None:
    """Delete the content of a private folder, except its mark."""
    for name in os.listdir(folder):
        if name != MARK:
            delete(folder / name)


def delete(path: Path) -> None:
    """Delete a file, a link or a folder with its content, as far as the system allows."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def remove_leftovers(folder: Path, *, locked: bool = False) -> None:
    """Delete the private folders in ``folder`` that killed processes of this user have left.

    ``locked``: the caller holds a lock that no other writer of ``folder`` has.
    """
    if os.name == "nt":  # it cannot delete open files
        return
    try:
        names = os.listdir(folder)
    except OSError:
        return  # the write will report the error
    for name in filter(NAME.fullmatch, names):
        with suppress(OSError), _opened(folder / name) as inside:
            if os.stat(inside).st_uid == os.geteuid() and _is_abandoned(inside, locked=locked):
                _empty(inside)
                (inside / MARK).unlink(missing_ok=True)
                os.rmdir(folder / name)


def _is_abandoned(inside: Path, *, locked: bool) -> bool:
    """Return whether this toolkit made the folder and nobody writes into it any more. May raise OSError.

    The number of the process alone does not say so: in another container, or on another machine that shares the folder,
    it may belong to a running process. The lock alone does not either, because not all file systems share locks.
    """
    entries = os.listdir(inside)
    changed = [os.stat(inside), *(os.lstat(inside / name) for name in entries)]
    age = time.time() - max(status.st_mtime for status in changed)
    if not entries:  # killed before the mark was written, or after it was deleted
        return locked or age > ABANDONED_S
    with os.fdopen(os.open(inside / MARK, os.O_RDWR | os.O_NONBLOCK | NO_LINK), "rb") as mark:
        if not stat.S_ISREG(os.fstat(mark.fileno()).st_mode) or not lock_file(mark.fileno()):
            return False
        try:
            writer = json.loads(mark.read(1000))
            process = int(writer["process"])
            host = str(writer["host"])
        except (ValueError, LookupError, TypeError):
            return not os.fstat(mark.fileno()).st_size and (locked or age > ABANDONED_S)  # killed before it was written
    return locked or age > ABANDONED_S or (host == _host() and not _is_running(process))


def lock_file(descriptor: int) -> bool | None:
    """Lock an open file. Return False if another process holds it, and None if the file system has no locks."""
    try:
        if sys.platform == "win32":
            import msvcrt

            os.lseek(descriptor, 1 << 20, os.SEEK_SET)  # a locked byte cannot be read, so this is behind the content
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
            os.lseek(descriptor, 0, os.SEEK_SET)
        else:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except ImportError:
        return None
    except OSError as error:
        return False if error.errno in HELD else None
    return True


def _host() -> str:
    return os.uname().nodename if hasattr(os, "uname") else ""


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass  # a process of another user
    return True
