"""Write a training corpus larger than memory, shard by shard, in parallel processes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from nmt.data.filters import Duplicates, Filters
from nmt.data.pair import Pair
from nmt.errors import print_message
from nmt.files.checksum import checksum
from nmt.system.processes import ProcessWorkers, run_tasks
from nmt.text.account import Account
from nmt.text.duplicates import without_duplicates
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


class ShardPairs(NamedTuple):
    """The pairs of one shard, before any is dropped."""

    number: int
    pairs: list[Pair]

    @property
    def place(self) -> str:
        return f"the pairs of shard {self.number + 1}"


@dataclass(frozen=True)
class ShardWriter:
    """A function that writes the pairs of a shard into its file, and returns its record: counts, and name and checksum.

    Other processes receive a copy of it.
    """

    folder: Path
    source: Tokenizer
    target: Tokenizer
    filters: Filters

    def __call__(self, shard: ShardPairs) -> dict[str, Any]:
        account, file = Account(), self.folder / shard_name("train", shard.number)
        write_shard(file, shard.pairs, self.source, self.target, self.filters, account)
        return {"account": account.as_dict(), "files": {file.name: checksum(file)} if account.kept else {}}


def write_shards(
    writer: ShardWriter, pairs: Iterable[Pair], sharding: Sharding, duplicates: Duplicates | None
) -> tuple[Account, dict[str, int]]:
    """Write the shards that are not finished yet. Return the counts of all shards, and checksums by file name.

    The result depends on the pairs and settings only, not on the number of processes. Raises NoPairs if no pair is
    kept.
    """
    account, records = Account(), dict[int, dict[str, Any]]()
    unfinished = sharding.unfinished

    def remaining() -> Iterator[ShardPairs]:
        distinct = without_duplicates(pairs, duplicates, account)
        number = 0
        while group := list(islice(distinct, sharding.pairs)):
            record = unfinished.read(f"{number:05d}") if unfinished is not None else None
            if record is None:
                yield ShardPairs(number, group)
            else:
                records[number] = record
            number += 1

    if sharding.workers == 1:
        results = ((shard, writer(shard)) for shard in remaining())
    else:
        results = run_tasks(remaining(), ProcessWorkers(writer, sharding.workers))
    with closing(results):
        for (number, _), record in results:
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
