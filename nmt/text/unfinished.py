"""The folder in which nmt-prepare keeps finished shards, so that a killed command can be continued."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nmt.errors import UserError, counted, print_message
from nmt.files.atomic import LOCK_FILE, own_folder
from nmt.files.checksum import checksum
from nmt.files.records import Records
from nmt.text.pair_counts import NoPairs

PROGRESS = "progress"
JOB = "job"
BUSY = "another process is writing it; wait until it ends"
FIX = "rename it, or choose another output="
# Everything that nmt-prepare writes there.
WRITTEN = re.compile(
    rf"{re.escape(LOCK_FILE)}|{PROGRESS}|settings\.json|(source|target)\.model|\w+(-\d+)?\.arrow|\.nmt-.*\.partial"
)


class Unfinished:
    """A folder with finished files, and a JSON record of each below ``progress``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._records = Records(folder / PROGRESS)

    def begin(self, job: Mapping[str, Any]) -> None:
        """Keep the finished files if they belong to the same ``job``: text, settings and versions. Delete others."""
        if self.read(JOB) == job:
            return
        for path in self.folder.iterdir():
            if path not in (self._records.folder, self.folder / LOCK_FILE):
                path.unlink()
        shutil.rmtree(self._records.folder, ignore_errors=True)
        self.write(JOB, job)

    def write(self, name: str, record: Mapping[str, Any]) -> None:
        """Store a record durably. The files that it describes must be complete."""
        self._records.save(f"{name}.json", None, record, durable=True)

    def read(self, name: str) -> dict[str, Any] | None:
        """Return a record, or None if it or one of its files is missing or damaged.

        ``files`` of a record maps names to checksums.
        """
        record: dict[str, Any] | None = self._records.load(f"{name}.json", None)
        try:
            files = (record or {}).get("files", {}).items()
            return record if all(checksum(self.folder / file) == expected for file, expected in files) else None
        except OSError:
            return None

    def move_to(self, folder: Path) -> None:
        """Replace an empty folder by this one, which is complete, without its records and its lock.

        It must not be locked any more: Windows cannot rename a folder with an open file.
        """
        folder.rmdir()
        os.replace(self.folder, folder)  # first: a command that is killed before leaves all records, or nothing
        shutil.rmtree(folder / PROGRESS)
        (folder / LOCK_FILE).unlink()


@contextmanager
def unfinished_folder(output: Path) -> Iterator[Unfinished]:
    """Lock and yield the folder ``OUTPUT.partial``, which an earlier call may have left.

    When the block fails, the folder stays and a message says so, unless the data has no pairs. Raises UserError if
    another process holds it, or if it may be someone else's.
    """
    folder = output.with_name(f"{output.name}.partial")
    with own_folder(folder, busy=BUSY, fix=FIX):
        if foreign := sorted(name for name in os.listdir(folder) if not WRITTEN.fullmatch(name)):
            raise UserError(f"{folder}: holds {foreign[0]}, which this command has not written; {FIX}")
        try:
            yield Unfinished(folder)
        except NoPairs:  # the same command would fail again
            shutil.rmtree(folder)
            raise
        except BaseException:
            shards = len([*folder.glob(f"{PROGRESS}/[0-9]*.json")])
            print_message(f"{folder} keeps {counted(shards, 'finished shard')}; the same command continues from there")
            raise
