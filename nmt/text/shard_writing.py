"""Write a training corpus larger than memory, shard by shard, in parallel processes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from nmt.errors import print_message
from nmt.files.checksum import checksum
from nmt.text.account import Account
from nmt.text.duplicates import without_duplicates
from nmt.text.filters import Duplicates, PairFilters
from nmt.text.pair import Pair
from nmt.text.processes import in_processes
from nmt.text.shards import SHARD_PAIRS, shard_name, write_shard
from nmt.text.tokenizer import Tokenizer
from nmt.text.unfinished import Unfinished

MAX_SHARDS = 5000  # settings.json, which has the checksum of each, is bounded


class Sharding(NamedTuple):
    """How a large training part is written: pairs per shard, processes, and where finished shards are recorded."""

    pairs: int = SHARD_PAIRS
    workers: int = 1
    unfinished: Unfinished | None = None


SHARDING = Sharding()


class Task(NamedTuple):
    """The pairs of one shard."""

    number: int
    pairs: list[Pair]


class Written(NamedTuple):
    """A shard that was written. Its record holds counts, and name and checksum of its file."""

    number: int
    record: dict[str, Any]


@dataclass(frozen=True)
class ShardWriter:
    """A function that writes the pairs of a task into a shard. Other processes receive a copy of it."""

    folder: Path
    source: Tokenizer
    target: Tokenizer
    filters: PairFilters

    def __call__(self, task: Task) -> Written:
        account, file = Account(), self.folder / shard_name("train", task.number)
        write_shard(file, task.pairs, self.source, self.target, self.filters, account)
        files = {file.name: checksum(file)} if account.kept else {}
        return Written(task.number, {"account": account.as_dict(), "files": files})


def write_shards(
    writer: ShardWriter, pairs: Iterable[Pair], sharding: Sharding, duplicates: Duplicates | None
) -> tuple[Account, dict[str, int]]:
    """Write the shards that are not finished yet. Return the counts of all shards, and checksums by file name.

    The result depends on the pairs and settings only, not on the number of processes. Raises NoPairs if no pair is
    kept.
    """
    account, records = Account(), dict[int, dict[str, Any]]()
    unfinished = sharding.unfinished

    def tasks() -> Iterator[Task]:
        distinct = without_duplicates(pairs, duplicates, account)
        number = 0
        while group := list(islice(distinct, sharding.pairs)):
            record = unfinished.read(f"{number:05d}") if unfinished is not None else None
            if record is None:
                yield Task(number, group)
            else:
                records[number] = record
            number += 1

    for number, record in in_processes(writer, tasks(), workers=sharding.workers):
        if unfinished is not None:
            unfinished.write(f"{number:05d}", record)
        records[number] = record
        print_message(f"shard {number + 1}: {Account.from_dict(record['account']).lines()[0]}")
    checksums: dict[str, int] = {}
    for number in sorted(records):
        account.add(Account.from_dict(records[number]["account"]))
        checksums |= records[number]["files"]
    account.require_pairs("train")
    return account, checksums
