"""Files and folders that appear complete or not at all, their checksums, and their format versions.

Nothing here imports torch before it is needed: `nmt-translate` without torch uses this module too.
"""

from __future__ import annotations

import errno
import gzip
import hashlib
import os
import shutil
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile, ZipFile

from nmt.errors import UserError, remedy

if TYPE_CHECKING:
    from torch import Tensor

ABANDONED_S = 3600  # a temporary folder this old belongs to a process that was killed


# Atomic files and folders.


@contextmanager
def replace_file(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path that replaces ``path`` when the block succeeds and is deleted when it fails.

    Devices and pipes such as ``/dev/stdout`` are written directly. Raises UserError where ``path`` cannot be written.
    """
    path = Path(path)
    try:
        if path.is_dir():  # checked before the work, not after it
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if path.exists() and not path.is_file():
            yield path
            return
        target = path.resolve()  # a symbolic link stays a link
        temporary = _temporary(target)
        try:
            yield temporary
            os.replace(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)
    except BrokenPipeError:
        raise  # the reader closed the pipe; the command that owns the pipe handles it
    except OSError as error:
        raise UserError(f"{path}: cannot write: {error.strerror or error}; {remedy(error)}") from error


@contextmanager
def create_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder that becomes the new folder ``path`` when the block succeeds.

    Raises UserError where ``path`` exists or cannot be written.
    """
    if path.exists():
        raise UserError(f"output={path}: already exists; choose another folder")
    with _temporary_folder(path) as temporary:
        yield temporary
        os.replace(temporary, path)


@contextmanager
def replace_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder that replaces the folder ``path``, if there is one, when the block succeeds."""
    with _temporary_folder(path) as temporary:
        yield temporary
        shutil.rmtree(path, ignore_errors=True)
        os.replace(temporary, path)


@contextmanager
def _temporary_folder(path: Path) -> Iterator[Path]:
    temporary = _temporary(path)
    try:
        # Another process may be writing the same folder now, so only old temporary folders are deleted.
        for other in path.parent.glob(f".{path.name}.*.partial"):
            if other == temporary or _age_s(other) > ABANDONED_S:
                shutil.rmtree(other, ignore_errors=True)
        temporary.mkdir(parents=True)
        yield temporary
    except OSError as error:
        raise UserError(f"{path}: cannot write: {error.strerror or error}; {remedy(error)}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.partial")


def _age_s(folder: Path) -> float:
    """Return the seconds since a file was created in ``folder``; 0 where the folder has vanished."""
    try:
        return time.time() - folder.stat().st_mtime
    except FileNotFoundError:
        return 0


def write_lines(path: str | Path, lines: Iterable[str]) -> None:
    """Write the lines to ``path`` (gzipped if its name ends in ``.gz``); on an error the old file stays."""
    with replace_file(path) as temporary:
        opened = gzip.open if str(path).endswith(".gz") else open
        with opened(temporary, "wt", encoding="utf-8", newline="\n") as stream:
            stream.writelines(f"{line}\n" for line in lines)


# Models and checkpoints.


def write_checkpoint(path: Path, stored: Mapping[str, Any]) -> None:
    """Write the dictionary with ``torch.save``, atomically."""
    import torch

    with replace_file(path) as temporary:
        try:
            torch.save(dict(stored), temporary)
        except RuntimeError as error:  # what torch raises for a full disk
            raise OSError(errno.ENOSPC, str(error)) from None


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Read a dictionary that ``write_checkpoint`` wrote.

    The file may come from a stranger: only plain data and tensors are loaded, and no code runs. Raises UserError where
    the file is damaged or something else.
    """
    import torch

    try:
        with ZipFile(path) as parts:  # torch verifies no checksums; this takes 25 ms for 100 MB
            if damaged := parts.testzip():
                raise BadZipFile(f"{damaged}: wrong checksum")
        stored = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged pickle raises IndexError, AttributeError, AssertionError, …
        reason = str(error).strip().splitlines()[0][:120] if str(error).strip() else type(error).__name__
        raise UserError(
            f"{path}: cannot be read as a model ({reason}); it may be truncated or of another origin"
        ) from None
    if not isinstance(stored, dict):
        raise UserError(f"{path}: not a model of this toolkit; name a folder that nmt-train wrote")
    return stored


# Checksums and format versions.


def checksum(file: Path) -> int:
    """Return the CRC-32 of a file: 80 MB take 20 ms, a third of the time of SHA-256."""
    total = 0
    with file.open("rb") as stream:
        while block := stream.read(1 << 20):
            total = zlib.crc32(block, total)
    return total


def verify_file(file: Path, checksums: Mapping[str, int], *, kind: str, fix: str) -> Path:
    """Return ``file`` if it has the checksum recorded under its name; raise UserError otherwise.

    ``kind`` says what the file should be, ``fix`` what to do about a damaged one.
    """
    try:
        problem = None if checksum(file) == checksums.get(file.name) else "wrong checksum"
    except OSError as error:
        problem = error.strerror or str(error)
    if problem is not None:
        raise UserError(f"{file}: cannot be read as {kind} ({problem}); {fix}")
    return file


def archive_fingerprint(archive: Path) -> str:
    """Return a string that changes whenever a zip archive such as ``model.pt`` changes.

    The end of a zip file lists the checksum of every member, so hashing the last megabyte is enough.
    """
    with archive.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - (1 << 20)))
        return f"{size}-{hashlib.sha256(file.read()).hexdigest()}"


def tensors_digest(tensors: Mapping[str, Tensor], header: bytes) -> str:
    """Return the SHA-256 of ``header`` and of every tensor's name, type, shape and bytes, in hexadecimal."""
    import torch

    digest = hashlib.sha256(header)
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().clone(memory_format=torch.contiguous_format)
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)} ".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data if tensor.numel() else b"")
    return digest.hexdigest()


def require_format(found: object, supported: int, *, place: str | Path, fix: str) -> None:
    """Raise UserError where the format version stored in ``place`` is not ``supported``."""
    if found == supported:
        return
    if isinstance(found, int) and found > supported:
        fix = "update the toolkit"
    raise UserError(f"{place}: format {found}, but this version reads format {supported}; {fix}")
