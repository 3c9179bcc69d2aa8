"""Atomic files and folders, written in a temporary folder beside their name first; locks of folders, and records."""

from __future__ import annotations

import io
import json
import os
import shutil
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO

from nmt.errors import UserError, suggest_fix
from nmt.files.checksum import checksum
from nmt.files.reading import open_regular, opener

LOCK_FILE = ".lock"
BUSY = "another process is training into it; wait until it ends, or choose another name="  # of the folders in runs/
FIX = "choose another name="
PREFIX, SUFFIX = ".nmt-", ".partial"  # of temporary folders


@contextmanager
def replace_file(path: str | Path, *, durable: bool = False) -> Iterator[BinaryIO]:
    """Yield a new file that replaces ``path`` when the block succeeds and is deleted when it fails.

    A symbolic link stays a link: the file it points to is replaced. Devices and pipes such as ``/dev/null`` are written
    directly. A ``durable`` file survives a power failure that follows. Raises UserError if ``path`` cannot be written.
    """
    path = Path(path)
    with _write_errors(path):
        if path.exists() and not path.is_file():
            with open(path, "wb") as device:  # or IsADirectoryError
                yield device
            return
        target = Path(os.path.realpath(path))
        with _temporary_folder(target.parent) as folder:
            with open(folder / "new", "xb") as file:
                yield file
                file.flush()
                if durable:
                    os.fsync(file.fileno())
            if target.exists():
                shutil.copymode(target, folder / "new")
            os.replace(folder / "new", target)


@contextmanager
def _temporary_folder(parent: Path) -> Iterator[Path]:
    with TemporaryDirectory(prefix=PREFIX, suffix=SUFFIX, dir=parent, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def remove_leftovers(folder: Path) -> None:
    """Delete what killed commands have left in ``folder``. Only for the holder of its lock."""
    for path in folder.glob(f"{PREFIX}*{SUFFIX}"):
        shutil.rmtree(path, ignore_errors=True)


def make_folder(folder: Path) -> None:
    """Create a folder and its parents where they do not exist. Raises UserError if that fails."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{folder}: cannot be created: {error.strerror}; {suggest_fix(error)}") from None
    except RecursionError:  # mkdir calls itself for each parent
        raise UserError(f"{folder}: cannot be created: too many nested folders; choose another place") from None


@contextmanager
def create_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder that becomes the new folder ``path`` when the block succeeds.

    Raises UserError if ``path`` exists or cannot be written.
    """
    if os.path.lexists(path):
        raise UserError(f"output={path}: already exists; choose another folder")
    with _new_folder(path) as new:
        yield new
        os.rename(new, path)  # fails if another process has made it meanwhile


@contextmanager
def replace_folder(path: Path, *, mark: str) -> Iterator[Path]:
    """Yield a temporary folder that replaces the folder ``path`` when the block succeeds.

    ``path`` need not exist. Raises UserError if it cannot be written, or if it holds files, but not the file ``mark``
    that each folder of its kind has.
    """

    require = partial(require_own, path, fix="rename it, or it would be replaced", marks=(mark,))
    require()
    with _new_folder(path) as new:
        yield new
        require()
        old = new.with_name("old")
        # A folder cannot replace a full one in one step, so the old one is renamed first and deleted last.
        if path.exists():
            os.rename(path, old)
        try:
            os.rename(new, path)
        except BaseException:
            if old.exists() and not path.exists():
                os.rename(old, path)
            raise


@contextmanager
def _new_folder(path: Path) -> Iterator[Path]:
    """Yield a new folder in a temporary folder beside ``path``. Messages of errors name ``path`` instead."""
    make_folder(path.parent)
    with _write_errors(path), _temporary_folder(path.parent) as folder:
        new = folder / "new"
        new.mkdir()
        try:
            yield new
        except UserError as error:
            raise UserError(*(problem.replace(str(new), str(path)) for problem in error.problems)) from error


@contextmanager
def _write_errors(path: Path) -> Iterator[None]:
    """Turn an OSError of the block into a UserError that names ``path``."""
    try:
        yield
    except BrokenPipeError:
        raise  # the reader closed the pipe; the command that writes to it handles this
    except OSError as error:
        raise UserError(f"{path}: cannot write: {error.strerror or error}; {suggest_fix(error)}") from error


def write_lines(path: str | Path, lines: Iterable[str], *, durable: bool = False) -> None:
    """Write the lines to ``path`` atomically, compressed as its name says; see ``replace_file``.

    Names of files need not be UTF-8: what is not is written with escapes.
    """
    with replace_file(path, durable=durable) as file, compressed(file, path) as stream:
        stream.writelines(f"{line}\n".encode(errors="backslashreplace") for line in lines)


def write_bytes(path: Path, content: bytes) -> None:
    """Write ``content`` to ``path`` atomically; see ``replace_file``."""
    with replace_file(path) as file:
        file.write(content)


@contextmanager
def compressed(file: BinaryIO, path: str | Path) -> Iterator[BinaryIO]:
    """Yield ``file``, or a stream that compresses what is written to it as the name ``path`` says."""
    if (open_stream := opener(str(path))) is open:
        yield file
        return
    with io.BufferedWriter(open_stream(file, "wb")) as stream:
        yield stream


def require_own(folder: Path, *, fix: str = FIX, marks: Collection[str] = (LOCK_FILE,)) -> None:
    """Raise UserError if ``folder`` holds files, but none of the ``marks`` of a command: they are the user's.

    ``fix`` says what the user can do.
    """
    with _write_errors(folder):
        names = sorted(os.listdir(folder)) if os.path.lexists(folder) else []  # of a file: an error
    if names and set(marks).isdisjoint(names):
        raise UserError(f"{folder}: holds {names[0]}, which this command has not written; {fix}")


@contextmanager
def own_folder(folder: Path, *, busy: str = BUSY, fix: str = FIX) -> Iterator[None]:
    """Lock a folder in which a command continues during the block. Create it if it does not exist.

    Raises UserError if it holds files of the user; see ``require_own``.
    """
    require_own(folder, fix=fix)
    make_folder(folder)
    with lock_folder(folder, busy=busy):
        yield


@contextmanager
def lock_folder(folder: Path, *, busy: str = BUSY) -> Iterator[None]:
    """Hold the lock of ``folder`` while the block runs.

    Raises UserError if another process holds it; ``busy`` says what that process does, and what to do about it. The
    system releases the lock when its process ends, however it ends. So a file that is left blocks nobody.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(folder / LOCK_FILE, blocking=False)
    with _write_errors(folder):
        try:
            lock.acquire()
        except Timeout:
            raise UserError(f"{folder}: {busy}") from None
    try:
        remove_leftovers(folder)
        yield
    finally:
        lock.release()


def save_record(file: Path, key: Any, record: Any) -> None:
    """Write the result of finished work atomically, so that a killed command can continue.

    A file has two lines: a header with key and checksum, and the data. The key holds everything that the data depend
    on. Raises UserError if the file cannot be written, for example on a full disk.
    """
    content = json.dumps(record).encode()
    header = json.dumps({"key": key, "checksum": checksum(content)}).encode()
    make_folder(file.parent)
    write_bytes(file, header + b"\n" + content)


def load_record(file: Path, key: Any) -> Any:
    """Return the record in a file, None if it is missing, damaged, or of another key. Tuples were stored as lists."""
    try:
        with open_regular(file) as stream:
            header = json.loads(stream.readline())
            content = stream.read()
        expected = {"key": json.loads(json.dumps(key)), "checksum": checksum(content)}
        return json.loads(content) if header == expected else None
    except (OSError, ValueError, RecursionError):
        return None
