"""Lock a folder, so that only one process at a time writes into it."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from nmt.errors import UserError
from nmt.files.atomic import make_folder
from nmt.files.private import NO_LINK, lock_file, private_folder
from nmt.files.reading import refuse_links

LOCK_FILE = ".lock"
BUSY = "is training into it; wait until it ends, or choose another name="  # of the folders in runs/
FIX = "choose another name="
CONTENT = re.compile(rb"[0-9]{0,20}\n?")


@contextmanager
def own_folder(
    folder: Path, *, busy: str = BUSY, fix: str = FIX, derived: bool = False, names: re.Pattern[str] | None = None
) -> Iterator[None]:
    """Lock a folder in which a command continues during the block. Create it if it does not exist.

    Raises UserError if someone else may have written the folder; see ``require_own``.
    """
    require_own(folder, fix=fix, derived=derived, names=names)
    make_folder(folder)
    with lock_folder(folder, busy=busy, must_stay=True):
        yield


def require_own(
    folder: Path,
    *,
    fix: str = FIX,
    derived: bool = False,
    known: Collection[str] = (),
    names: re.Pattern[str] | None = None,
) -> None:
    """Raise UserError if ``folder`` exists and may be someone else's.

    It may be if it holds files, but neither a lock nor a ``known`` file, or if it contains symbolic links. With
    ``names``, only files with such names count, because the command writes no others. A folder whose name is
    ``derived`` from a name that the user gave must belong to the user and must not be a link. ``fix`` says what else
    the user can do.
    """
    try:
        status = os.lstat(folder) if derived else os.stat(folder)
        if stat.S_ISLNK(status.st_mode):
            raise UserError(f"{folder}: a symbolic link to {os.readlink(folder)}; remove it, or {fix}")
        entries = sorted(os.listdir(folder))
    except FileNotFoundError:
        return
    except OSError as error:
        raise UserError(f"{folder}: cannot be used: {error.strerror}; {fix}") from None
    if derived and not _belongs_to_user(folder, status):
        raise UserError(f"{folder}: belongs to another user; {fix}")
    if names is not None:
        entries = [name for name in entries if name == LOCK_FILE or names.fullmatch(name)]
    if entries and {LOCK_FILE, *known}.isdisjoint(entries):
        raise UserError(f"{folder}: holds {entries[0]}, which this command has not written; {fix}")
    refuse_links(folder, None if names is None else entries)


def _belongs_to_user(folder: Path, status: os.stat_result) -> bool:
    """Return whether the folder has the owner that new folders beside it get; some file systems change the owner."""
    if not hasattr(os, "geteuid") or status.st_uid == os.geteuid():
        return True
    with private_folder(folder.parent) as new:
        return status.st_uid == os.stat(new).st_uid


@contextmanager
def lock_folder(folder: Path, *, busy: str = BUSY, must_stay: bool = False) -> Iterator[None]:
    """Hold the lock of ``folder`` while the block runs.

    With ``must_stay``, a folder that someone has deleted or replaced during the block is an error at its end.

    Raises UserError if another process holds it; ``busy`` says what that process does, and what to do about it. The
    system releases the lock when its process ends, however it ends. So a file that is left blocks nobody.
    """
    path = folder / LOCK_FILE
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NONBLOCK", 0) | NO_LINK
    with os.fdopen(os.open(path, flags, 0o644), "r+b", buffering=0) as file:
        if lock_file(file.fileno()) is False:
            number = file.read(20).strip()
            holder = f"process {int(number)}" if number.isdigit() else "another process"
            raise UserError(f"{folder}: {holder} {busy}")
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode) or not CONTENT.fullmatch(file.read(100)):
            raise UserError(f"{path}: not a lock of this toolkit; rename it, or choose another folder")
        file.truncate(0)
        file.seek(0)
        file.write(f"{os.getpid()}\n".encode())
        yield
        if must_stay and not _is_at(file.fileno(), path):
            raise UserError(
                f"{folder}: was deleted or moved while this command wrote into it, so files are missing; start again"
            )


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except OSError:
        return False
