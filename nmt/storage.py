"""Atomic files and folders, checksums, and format versions.

Every file or folder that the toolkit replaces is written under a temporary name first, then renamed. Integrity has two
tools: CRC-32 finds damage (``checksum``, and the checksums inside zip archives), SHA-256 tells versions apart
(``archive_fingerprint``, ``tensors_digest``).

Functions import torch when they need it, because ``nmt-translate`` must run without it.
"""

from __future__ import annotations

import errno
import gzip
import hashlib
import os
import shutil
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile, ZipFile

from nmt.errors import UserError, suggest_fix
from nmt.leftovers import hold, remove_leftovers, temporary_name
from nmt.reading import check_members, open_regular, require_regular

if TYPE_CHECKING:
    from torch import Tensor

BLOCK_BYTES = 1 << 20


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
    """Write the lines to ``path`` atomically, gzipped if its name ends in ``.gz``; see ``replace_file``."""
    with replace_file(path, durable=durable) as temporary:
        open_text = gzip.open if str(path).endswith(".gz") else open
        with open_text(temporary, "wt", encoding="utf-8", newline="\n") as stream:
            stream.writelines(f"{line}\n" for line in lines)


def write_checkpoint(path: Path, checkpoint: Mapping[str, Any]) -> None:
    """Write the dictionary with ``torch.save``, atomically and durably. Equal contents give equal bytes."""
    import torch

    with replace_file(path, durable=True) as temporary:
        try:
            # Given a path, torch would store its name, which holds the number of this process.
            with temporary.open("wb") as file:
                torch.save(dict(checkpoint), file)
        except RuntimeError as error:  # torch raises this when the disk is full
            raise OSError(errno.ENOSPC, str(error)) from None


def read_checkpoint(path: Path, *, keys: Mapping[str, type] | None = None) -> dict[str, Any]:
    """Read a dictionary that ``write_checkpoint`` wrote, with its tensors on the CPU.

    Only plain data and tensors are loaded, so a file from an unknown source cannot run code. Raises UserError if the
    file is damaged, is not a checkpoint, or lacks one of ``keys`` with its type.
    """
    import torch

    try:
        with ZipFile(require_regular(path)) as archive:  # torch verifies no checksums; this takes 25 ms for 100 MB
            check_members(archive, path)
            if damaged := archive.testzip():
                raise BadZipFile(f"{damaged}: wrong checksum")
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged pickle raises IndexError, AttributeError, AssertionError, …
        reason = str(error).strip().splitlines()[0][:120] if str(error).strip() else type(error).__name__
        raise UserError(f"{path}: cannot be read as a model ({reason}); it may be truncated or not a model") from None
    if not isinstance(checkpoint, dict):
        raise UserError(f"{path}: not a model of this toolkit; name a folder that nmt-train wrote")
    if wrong := [key for key, kind in (keys or {}).items() if not isinstance(checkpoint.get(key), kind)]:
        raise UserError(f"{path}: has no valid {wrong[0]!r}; it is not a checkpoint that nmt-train wrote")
    return checkpoint


def checksum(file: Path) -> int:
    """Return the CRC-32 of a file. 80 MB take 20 ms, a third of the time of SHA-256."""
    total = 0
    with open_regular(file) as stream:
        while block := stream.read(BLOCK_BYTES):
            total = zlib.crc32(block, total)
    return total


def verify_file(file: Path, checksums: Mapping[str, int], *, kind: str, fix: str) -> Path:
    """Return ``file`` if its checksum equals the one recorded under its name; raise UserError otherwise.

    The message says what the file should be (``kind``) and what to do about a damaged one (``fix``).
    """
    try:
        problem = None if checksum(file) == checksums.get(file.name) else "wrong checksum"
    except OSError as error:
        problem = error.strerror or str(error)
    if problem is not None:
        raise UserError(f"{file}: cannot be read as {kind} ({problem}); {fix}")
    return file


def archive_fingerprint(archive: Path) -> str:
    """Return a string that changes whenever the content of a zip archive such as ``model.pt`` changes.

    The end of a zip file lists the checksum of every member, so hashing the last megabyte is enough.
    """
    with open_regular(archive) as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, size - BLOCK_BYTES))
        return f"{size}-{hashlib.sha256(stream.read()).hexdigest()}"


def tensors_digest(tensors: Mapping[str, Tensor], header: bytes) -> str:
    """Return the SHA-256 of ``header`` and of every tensor's name, type, shape and bytes, in hexadecimal."""
    import torch

    digest = hashlib.sha256(header)
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().clone(memory_format=torch.contiguous_format)
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)} ".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data if tensor.numel() else b"")
    return digest.hexdigest()


def require_format(stored: object, supported: int, *, place: str | Path, fix: str) -> None:
    """Raise UserError unless ``stored``, the format version in ``place``, equals ``supported``.

    Files store the version as a number, as text or as bytes. ``fix`` says what to do about an older or missing one.
    """
    text = stored.decode(errors="replace") if isinstance(stored, bytes) else str(stored)
    if not text.isdecimal():
        raise UserError(f"{place}: no valid format version; {fix}")
    if int(text) != supported:
        advice = "update the toolkit" if int(text) > supported else fix
        raise UserError(f"{place}: format {int(text)}, but this version reads format {supported}; {advice}")
