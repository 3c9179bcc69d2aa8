"""Translate shards with workers, and keep the finished ones in a folder beside the output.

The folder is deleted when the output is complete. ``settings.json`` says which call wrote the shards. A shard of other
lines of the input counts as missing.
"""

from __future__ import annotations

import json
import os
import shutil
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from nmt.errors import UserError
from nmt.files.atomic import write_bytes
from nmt.files.locks import LOCK_FILE, own_folder
from nmt.files.private import remove_leftovers
from nmt.files.reading import read_json
from nmt.files.records import Records
from nmt.inference.shards.shard import Done, Shard
from nmt.system.processes import Workers, run_tasks

SETTINGS = "settings.json"
BUSY = "is writing into it; wait until it ends, or choose another output="


class ShardStore:
    """The finished shards in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._records = folder, Records(folder)

    def count(self) -> int:
        """Return the number of files of finished shards."""
        return sum(name.endswith(".shard") for name in os.listdir(self.folder))

    def save(self, shard: Shard, done: Done) -> None:
        """Write the result of a shard. Raises UserError if the file cannot be written, for example on a full disk."""
        self._records.save(_file(shard.number), shard.fingerprint, done)

    def load(self, number: int, fingerprint: str) -> Done | None:
        """Return the result of the shard ``number``; None if its file is missing, damaged or of other lines."""
        stored = self._records.load(_file(number), fingerprint)
        if stored is None:
            return None
        lines, output, links, warnings = stored
        return Done(lines, output, links, [(row, reason) for row, reason in warnings])

    def check_settings(self, settings: Mapping[str, Any]) -> None:
        """Record the settings of this call. Raises UserError if the folder holds shards of a call with others."""
        file = self.folder / SETTINGS
        if not file.exists():
            write_bytes(file, json.dumps(settings).encode())
            return
        try:
            stored = read_json(file)
        except (OSError, ValueError):
            stored = None
        if not isinstance(stored, dict):
            raise UserError(f"{file}: damaged; delete the folder {self.folder} to start again")
        changed = [name for name in {**stored, **settings} if stored.get(name) != settings.get(name)]
        if changed:
            raise UserError(
                f"{self.folder}: holds shards of another call ({_difference(changed[0], stored, settings)}); "
                "repeat that call to continue, or delete the folder"
            )


@contextmanager
def open_store(folder: Path, settings: Mapping[str, Any]) -> Iterator[ShardStore]:
    """Yield the store in ``folder``, which is created if it does not exist and deleted if the block succeeds.

    If the block fails, the folder stays, unless it holds no finished shard. Raises UserError if another process uses
    the folder, if it cannot be written, or if its shards were written with other ``settings``, which are plain data.
    """
    keep = True
    try:
        with own_folder(folder, busy=BUSY, fix="rename it, or choose another output=", derived=True):
            remove_leftovers(folder, locked=True)
            if set(os.listdir(folder)) - {LOCK_FILE} and not (folder / SETTINGS).is_file():
                raise UserError(f"{folder}: not a folder of finished shards; rename it, or choose another output=")
            store = ShardStore(folder)
            store.check_settings(settings)
            try:
                yield store
                keep = False
            finally:
                keep = keep and store.count() > 0
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


def run_shards(shards: Iterable[Shard], store: ShardStore, workers: Workers) -> Generator[Done]:
    """Yield the results of the shards in order. ``store`` keeps each result as soon as it exists.

    Shards that the store holds already are not translated again; see ``run_tasks`` for those that fail.
    """
    order = deque[tuple[int, str]]()  # number and fingerprint of each shard that was not yielded yet
    finished = set[int]()

    def unfinished() -> Iterator[Shard]:
        for shard in shards:
            order.append((shard.number, shard.fingerprint))
            if store.load(*order[-1]) is None:
                yield shard
            else:
                finished.add(shard.number)

    def ready() -> Iterator[Done]:
        while order and order[0][0] in finished:
            number, fingerprint = order.popleft()
            finished.remove(number)
            done = store.load(number, fingerprint)
            if done is None:
                raise UserError(f"{store.folder}: shard {number} was changed; run the same command again")
            yield done

    with closing(run_tasks(unfinished(), workers)) as results:
        for shard, done in results:
            store.save(shard, done)
            finished.add(shard.number)
            yield from ready()
    yield from ready()


def _difference(name: str, stored: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
    old, new = (f"{name}={json.dumps(values.get(name)):.80}" for values in (stored, settings))
    return f"{old}, now {new}"


def _file(number: int) -> str:
    return f"{number:08d}.shard"
