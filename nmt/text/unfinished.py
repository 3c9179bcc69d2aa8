"""The folder in which nmt-prepare keeps finished shards, so that a killed command can be continued."""

from __future__ import annotations

import json
import os
import shutil
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nmt.errors import UserError, counted, print_message
from nmt.files.atomic import write_lines
from nmt.files.checksum import checksum
from nmt.files.reading import read_json
from nmt.text.account import NoPairs

try:
    import fcntl
except ImportError:  # Windows: two commands that write the same folder are not noticed
    fcntl = None  # type: ignore[assignment]

PROGRESS = "progress"
JOB = "job"


class Unfinished:
    """A folder with finished files, and a JSON record of each below ``progress``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._progress = folder / PROGRESS

    def begin(self, job: Mapping[str, Any]) -> None:
        """Keep the finished files if they belong to the same ``job``: text, settings and versions. Delete others."""
        if self.read(JOB) == job:
            return
        for path in self.folder.iterdir():
            if path != self._progress:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        shutil.rmtree(self._progress, ignore_errors=True)  # last: it shows that nmt-prepare has written the folder
        self._progress.mkdir()
        self.write(JOB, job)

    def write(self, name: str, record: Mapping[str, Any]) -> None:
        """Store a record durably, with its own checksum. The files that it describes must be complete."""
        text = json.dumps(record, sort_keys=True)
        line = json.dumps({"record": record, "checksum": zlib.crc32(text.encode())})
        write_lines(self._progress / f"{name}.json", [line], durable=True)

    def read(self, name: str) -> dict[str, Any] | None:
        """Return a record whose files are undamaged, or None. ``files`` of a record maps names to checksums."""
        try:
            stored = read_json(self._progress / f"{name}.json")
            record: dict[str, Any] = stored["record"]
            if zlib.crc32(json.dumps(record, sort_keys=True).encode()) != stored["checksum"]:
                return None
            if any(checksum(self.folder / file) != expected for file, expected in record.get("files", {}).items()):
                return None
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None
        return record

    def move_to(self, folder: Path) -> None:
        """Replace an empty folder by this one, which is complete, without its records."""
        shutil.rmtree(self._progress)
        for leftover in self.folder.glob(".*.partial"):  # of processes that were killed
            leftover.unlink()
        folder.rmdir()
        os.replace(self.folder, folder)


@contextmanager
def unfinished_folder(output: Path) -> Iterator[Unfinished]:
    """Yield the folder ``OUTPUT.partial``, which another call may have left, and lock it.

    When the block fails, the folder stays and a message says so, unless the data has no pairs. Raises UserError if
    another process holds it.
    """
    folder = output.with_name(f"{output.name}.partial")
    if folder.is_symlink():
        raise UserError(f"{folder}: a symbolic link; remove it")
    folder.mkdir(exist_ok=True)
    if not (folder / PROGRESS).is_dir() and any(folder.iterdir()):
        raise UserError(f"{folder}: holds files that nmt-prepare has not written; rename it, or choose another output=")
    with _locked(folder):
        try:
            yield Unfinished(folder)
        except NoPairs:  # the same command would fail again
            shutil.rmtree(folder)
            raise
        except BaseException:
            shards = len([*folder.glob(f"{PROGRESS}/[0-9]*.json")])
            print_message(f"{folder} keeps {counted(shards, 'finished shard')}; the same command continues from there")
            raise


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    if fcntl is None:
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(f"{folder}: another nmt-prepare is writing it; wait until it ends") from None
        except OSError:
            pass  # a file system without locks
        yield
    finally:
        os.close(descriptor)
