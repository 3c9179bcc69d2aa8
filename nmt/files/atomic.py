"""Atomic files and folders: each is written under a temporary name first, then renamed."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from nmt.errors import UserError, suggest_fix
from nmt.files.compression import opener
from nmt.files.leftovers import hold, remove_leftovers, temporary_name


@contextmanager
def replace_file(path: str | Path, *, durable: bool = False) -> Iterator[Path]:
    """Yield a temporary path that replaces ``path`` when the block succeeds and is deleted when it fails.

    A symbolic link stays a link: the file it points to is replaced. Devices and pipes such as ``/dev/null`` are
    written directly. A ``durable`` file survives a power failure that follows. Raises UserError if ``path`` cannot be
    written.
    """
    path = Path(path)
    with _write_errors(path):
        if path.is_dir():  # raise before the block does its work
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if path.exists() and not path.is_file():
            yield path
            return
        target = path.resolve()
        remove_leftovers(target)
        temporary = temporary_name(target)
        try:
            temporary.touch()
            with hold(temporary):
                yield temporary
                if durable:
                    _flush_to_disk(temporary)
                os.replace(temporary, target)
            if durable:
                _flush_to_disk(target.parent)
        finally:
            temporary.unlink(missing_ok=True)


def _flush_to_disk(path: Path) -> None:
    """Wait until the disk holds the file's content, or the folder's list of names."""
    if os.name == "nt" and path.is_dir():
        return  # Windows cannot open a folder
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def create_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder that becomes the new folder ``path`` when the block succeeds.

    Raises UserError if ``path`` exists or cannot be written.
    """
    if path.exists():
        raise UserError(f"output={path}: already exists; choose another folder")
    with _write_errors(path), _temporary_folder(path) as temporary:
        yield temporary
        os.replace(temporary, path)


@contextmanager
def replace_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder that replaces the folder ``path`` when the block succeeds.

    ``path`` need not exist. Raises UserError if it cannot be written, or if it is a symbolic link: a folder from
    someone else could contain a link to any folder of the user.
    """
    if path.is_symlink():
        raise UserError(f"{path}: a symbolic link to {os.readlink(path)}, which would be replaced; remove the link")
    target = path.resolve()
    with _write_errors(path), _temporary_folder(target) as temporary:
        yield temporary
        # A folder cannot replace a full one in one step, so the old one is renamed first and deleted last.
        old = temporary.with_suffix(".old.partial")
        shutil.rmtree(old, ignore_errors=True)
        with suppress(FileNotFoundError):  # another process may replace it too
            if target.is_dir():
                os.replace(target, old)
        try:
            os.replace(temporary, target)
        except BaseException as error:
            if old.exists() and not target.exists():
                os.replace(old, target)
            elif isinstance(error, OSError) and target.is_dir():
                raise UserError(f"{path}: another process has replaced it meanwhile; run the command again") from None
            raise
        finally:
            shutil.rmtree(old, ignore_errors=True)


@contextmanager
def _temporary_folder(path: Path) -> Iterator[Path]:
    """Yield a new folder beside ``path`` that is deleted after the block if it still exists."""
    temporary = temporary_name(path)
    remove_leftovers(path)
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        temporary.mkdir(parents=True)
        with hold(temporary):
            yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


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
    """Write the lines to ``path`` atomically, compressed as its name says; see ``replace_file``."""
    with (
        replace_file(path, durable=durable) as temporary,
        opener(str(path))(temporary, "wt", encoding="utf-8", newline="\n") as stream,
    ):
        stream.writelines(f"{line}\n" for line in lines)
