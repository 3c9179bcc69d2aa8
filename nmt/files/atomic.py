"""Atomic files and folders: each is written in a private folder beside its name first, then renamed."""

from __future__ import annotations

import errno
import io
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from nmt.errors import UserError, suggest_fix
from nmt.files.compression import opener
from nmt.files.private import NEW_FILE, NO_LINK, private_folder
from nmt.files.reading import open_descriptor

NEW, OLD = "new", "old"  # names in the private folder


@contextmanager
def replace_file(path: str | Path, *, durable: bool = False, user_named: bool = False) -> Iterator[BinaryIO]:
    """Yield a new file that replaces ``path`` when the block succeeds and is deleted when it fails.

    ``user_named``: the user has named the file. A symbolic link then stays a link: the file it points to is replaced.
    Devices and pipes such as ``/dev/null`` are written directly. All other files lie in folders that strangers may have
    made, so both are errors. A ``durable`` file survives a power failure that follows. Raises UserError if ``path``
    cannot be written.
    """
    path = Path(path)
    with _write_errors(path):
        status = _status(path, follow_link=user_named)  # raise before the block does its work
        if status is not None and stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if status is not None and not stat.S_ISREG(status.st_mode):
            if not user_named:
                raise UserError(f"{path}: {describe_special(path)}; remove it")
            with _open_device(path) as device:
                yield device
            return
        target = Path(os.path.realpath(path)) if user_named else path
        with private_folder(target.parent) as folder:
            with _new_file(folder / NEW, status) as file:
                yield file
                file.flush()
                if durable:
                    os.fsync(file.fileno())
                _require_same(file, folder / NEW)
            os.replace(folder / NEW, target)
        if durable:
            _flush_to_disk(target.parent)


def _status(path: Path, *, follow_link: bool = False) -> os.stat_result | None:
    """Return the status of ``path``, or None if it does not exist. Raises OSError for a name that cannot exist."""
    try:
        return os.stat(path) if follow_link else os.lstat(path)
    except FileNotFoundError:
        return None
    except ValueError as error:  # an embedded null byte
        raise OSError(errno.EINVAL, str(error)) from None


def describe_special(path: Path) -> str:
    """Return the text for a path that is not a regular file: a symbolic link, a folder, or something else."""
    if path.is_symlink():
        return f"a symbolic link to {os.readlink(path)}"
    return "a folder" if path.is_dir() else "not a regular file"


def _open_device(path: Path) -> BinaryIO:
    """Open a device or a pipe for writing. Raises OSError if ``path`` has become a regular file."""
    descriptor = os.open(path, os.O_WRONLY | getattr(os, "O_CLOEXEC", 0))
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.ESTALE, "another process has replaced it")
    return os.fdopen(descriptor, "wb")


def _new_file(path: Path, replaced: os.stat_result | None) -> BinaryIO:
    """Create a file. It has the permissions of the ``replaced`` one, if that is the user's own."""
    mode = 0o666 if replaced is None else stat.S_IMODE(replaced.st_mode) & 0o777
    descriptor = os.open(path, NEW_FILE, mode)
    if replaced is not None and hasattr(os, "fchmod"):
        own = os.fstat(descriptor)
        if own.st_uid == replaced.st_uid and stat.S_IMODE(own.st_mode) != mode:
            os.fchmod(descriptor, mode)
    return os.fdopen(descriptor, "wb")


def _require_same(file: BinaryIO, path: Path) -> None:
    """Raise OSError if ``path`` is not the open file any more: without /proc, a stranger could replace its folder."""
    if not os.path.samestat(os.fstat(file.fileno()), os.lstat(path)):
        raise OSError(errno.ESTALE, "another process has replaced the temporary file")


def _flush_to_disk(folder: Path) -> None:
    """Wait until the disk holds the folder's list of names."""
    if os.name == "nt":
        return  # Windows cannot open a folder
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> None:
    """Create a folder and its parents where they do not exist. Raises UserError that names what is in their place."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        for path in (folder, *folder.parents):
            if os.path.lexists(path) and not path.is_dir():
                link = f"a symbolic link to {os.readlink(path)}, which is" if path.is_symlink() else "is"
                raise UserError(f"{path}: {link} not a folder; remove it, or choose another place") from None
        raise UserError(f"{folder}: cannot be created: {error.strerror}; {suggest_fix(error)}") from None


@contextmanager
def create_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder that becomes the new folder ``path`` when the block succeeds.

    Raises UserError if ``path`` exists or cannot be written.
    """
    with _write_errors(path):
        if _status(path) is not None:
            raise UserError(f"output={path}: already exists; choose another folder")
        make_folder(path.parent)
        with _new_folder(path) as new:
            yield new
            os.replace(new, path)


@contextmanager
def replace_folder(path: Path, *, mark: str | None = None) -> Iterator[Path]:
    """Yield a temporary folder that replaces the folder ``path`` when the block succeeds.

    ``path`` need not exist. Raises UserError if it cannot be written, or if it is a symbolic link: a folder from
    someone else could contain a link to any folder of the user. Also if it holds files, but not the file ``mark`` that
    each folder of its kind has.
    """
    target = path.absolute()
    with _write_errors(path):
        status = _status(path)
        if status is not None and not stat.S_ISDIR(status.st_mode):
            kind = describe_special(path) if path.is_symlink() else "not a folder"
            raise UserError(f"{path}: {kind}, which would be replaced; remove it")
        names = sorted(os.listdir(target)) if status is not None else []
        if mark is not None and names and mark not in names:
            raise UserError(f"{path}: holds {names[0]}, but no {mark}, and would be replaced; rename it")
        make_folder(target.parent)
        with _new_folder(target) as new:
            yield new
            old = new.with_name(OLD)
            # A folder cannot replace a full one in one step, so the old one is renamed first and deleted last.
            with suppress(FileNotFoundError):  # the first export, or another process replaces it too
                os.replace(target, old)
            try:
                os.replace(new, target)
            except BaseException as error:
                if old.exists() and _status(target) is None:
                    os.replace(old, target)
                elif isinstance(error, OSError) and target.is_dir():
                    problem = "another process has replaced it meanwhile; run the command again"
                    raise UserError(f"{path}: {problem}") from None
                raise


@contextmanager
def _new_folder(path: Path) -> Iterator[Path]:
    """Yield a new folder in a private folder beside ``path``. Messages of errors name ``path`` instead."""
    with private_folder(path.parent) as folder:
        new = folder / NEW
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


def write_lines(path: str | Path, lines: Iterable[str], *, durable: bool = False, user_named: bool = False) -> None:
    """Write the lines to ``path`` atomically, compressed as its name says; see ``replace_file``."""
    with replace_file(path, durable=durable, user_named=user_named) as file, compressed(file, path) as stream:
        text = io.TextIOWrapper(stream, encoding="utf-8", newline="\n")
        try:
            text.writelines(f"{line}\n" for line in lines)
        finally:
            text.detach()  # flushes; the file stays open


def write_bytes(path: Path, content: bytes, *, durable: bool = False) -> None:
    """Write ``content`` to ``path`` atomically; see ``replace_file``."""
    with replace_file(path, durable=durable) as file:
        file.write(content)


@contextmanager
def compressed(file: BinaryIO, path: str | Path) -> Iterator[BinaryIO]:
    """Yield ``file``, or a stream that compresses what is written to it as the name ``path`` says."""
    if (open_stream := opener(str(path))) is open:
        yield file
        return
    with io.BufferedWriter(open_stream(file, "wb")) as stream:
        yield stream


def open_regular_to_write(path: Path, *, append: bool = False) -> BinaryIO:
    """Open a file for writing in a folder that strangers may have made. Raises OSError for links, pipes and devices."""
    mode = os.O_APPEND if append else 0
    flags = os.O_WRONLY | os.O_CREAT | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | NO_LINK | mode
    descriptor = open_descriptor(path, flags)
    if not append:
        os.ftruncate(descriptor, 0)
    return os.fdopen(descriptor, "ab" if append else "wb")
