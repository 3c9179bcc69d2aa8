"""A training corpus larger than memory: Arrow files of equal size, written by several processes."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nmt.data.filters import Duplicates, Filters
from nmt.data.links import Links
from nmt.data.pair import Pair
from nmt.errors import UserError, print_message
from nmt.files.checksum import checksum, verify_file
from nmt.settings.build import build, plain
from nmt.system.processes import run_tasks
from nmt.text.corpus import FIX, SCHEMA, SHARD_KEY, Corpus, corpus_errors, encoded_batches, open_arrow, write_batches
from nmt.text.duplicates import without_duplicates
from nmt.text.pair_counts import PairCounts
from nmt.text.tokenizer import Tokenizer
from nmt.text.unfinished import Unfinished

SHARD_PAIRS = 200_000  # a larger training part is written in shards of this many pairs, before any is dropped
WINDOW_PAIRS = 1_000_000  # training reads this many pairs at a time


class Header(NamedTuple):
    """The properties of a shard that training needs before it reads the shard."""

    rows: int
    lengths: tuple[tuple[int, ...], tuple[int, ...]]
    """Each number of pieces of the longer side, ascending and without ``</s>``, and the number of rows that have it."""
    longest_source: tuple[int, int]
    """The maximum number of source pieces of a row, without ``</s>``, and the first such row."""
    has_links: bool

    @classmethod
    def of(cls, table: Any) -> Header:
        """Return the header of an Arrow table with the columns of a corpus."""
        source, target = (pc.list_value_length(table.column(name)).to_numpy() for name in ("source_ids", "target_ids"))
        lengths, counts = np.unique(np.maximum(source, target), return_counts=True)
        longest = int(source.argmax())
        histogram = (tuple(lengths.tolist()), tuple(counts.tolist()))
        return cls(len(source), histogram, (int(source[longest]), longest), not table.column("links").null_count)

    def to_bytes(self) -> bytes:
        return json.dumps(self).encode()

    @classmethod
    def from_bytes(cls, text: bytes) -> Header:
        """Raises ValueError unless ``to_bytes`` could have written the text."""
        try:
            rows, (lengths, counts), (longest, row), has_links = json.loads(text)
            header = cls(rows, (tuple(lengths), tuple(counts)), (longest, row), bool(has_links))
            numbers = [rows, longest, row, *lengths, *counts]
            valid = all(type(number) is int and number >= 0 for number in numbers) and rows == sum(counts) > 0
            valid = valid and len(lengths) == len(counts) and lengths == sorted(set(lengths)) and row < rows
        except (TypeError, ValueError, RecursionError):
            valid = False
        if not valid:
            raise ValueError("a damaged shard header")
        return header


class ShardedCorpus(Corpus):
    """The sentence pairs of several shards as one corpus, with consecutive row numbers.

    Opening reads the header of each shard only. A shard is verified and memory-mapped when one of its rows is used,
    and closed when ``window`` other shards have been used since. Methods that return something for every row read
    all shards.
    """

    def __init__(
        self, paths: Sequence[Path], checksums: Mapping[str, int], vocabularies: tuple[int, int] | None = None
    ) -> None:
        self.path = paths[0].parent
        self.paths = list(paths)
        self._checksums = dict(checksums)
        self._vocabularies = vocabularies
        self.headers = [_read_header(path) for path in paths]
        self.starts: np.ndarray = np.cumsum([0] + [header.rows for header in self.headers])
        self._open: OrderedDict[int, Corpus] = OrderedDict()
        self.window = max(1, WINDOW_PAIRS * len(paths) // len(self))

    def __len__(self) -> int:
        return int(self.starts[-1])

    def shard(self, number: int) -> Corpus:
        """Return an open shard. Raises UserError if its file changed since it was prepared."""
        if number in self._open:
            self._open.move_to_end(number)
            return self._open[number]
        path = self.paths[number]
        verify_file(path, self._checksums, kind="a corpus", fix=FIX)
        corpus = Corpus.open(path, vocabularies=self._vocabularies, mapped=True)
        if Header.of(corpus.table) != self.headers[number]:
            raise UserError(f"{path}: not a corpus (its header is that of other text); {FIX}")
        while len(self._open) >= self.window:
            self._open.popitem(last=False)
        self._open[number] = corpus
        return corpus

    def _open_in_turn(self) -> Iterator[Corpus]:
        return (self.shard(number) for number in range(len(self.paths)))

    @property
    def source_lengths(self) -> np.ndarray:
        return np.concatenate([shard.source_lengths for shard in self._open_in_turn()])

    @property
    def target_lengths(self) -> np.ndarray:
        return np.concatenate([shard.target_lengths for shard in self._open_in_turn()])

    def sources(self) -> list[str]:
        return [text for shard in self._open_in_turn() for text in shard.sources()]

    def targets(self) -> list[str]:
        return [text for shard in self._open_in_turn() for text in shard.targets()]

    def links(self) -> list[Links] | None:
        return [gold for shard in self._open_in_turn() for gold in shard.links() or ()] if self.has_links else None

    def _find(self, row: int) -> tuple[Corpus, int]:
        number = int(np.searchsorted(self.starts, row, side="right")) - 1
        return self.shard(number), row - int(self.starts[number])

    def ids(self, row: int) -> tuple[np.ndarray, np.ndarray]:
        shard, row = self._find(row)
        return shard.ids(row)

    def texts(self, row: int) -> tuple[str, str]:
        shard, row = self._find(row)
        return shard.texts(row)

    def sure_links(self, row: int) -> np.ndarray:
        shard, row = self._find(row)
        return shard.sure_links(row)

    def longest_source(self) -> tuple[int, int]:
        lengths = [header.longest_source[0] for header in self.headers]
        number = int(np.argmax(lengths))
        return lengths[number], int(self.starts[number]) + self.headers[number].longest_source[1]

    def head(self) -> Corpus:
        return self.shard(0)

    @property
    def has_links(self) -> bool:
        return all(header.has_links for header in self.headers)


def _read_header(path: Path) -> Header:
    with corpus_errors(path):
        reader = open_arrow(path, mapped=True)
        header = reader.schema.metadata.get(SHARD_KEY)
        if header is None:
            raise ValueError("no shard header")
        return Header.from_bytes(header)


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


@dataclass(frozen=True)
class ShardWriter:
    """Function that writes the pairs of a shard into its file, and returns a record with counts and checksum.

    If the filters keep no pair, no file is written. Other processes receive a copy of this function.
    """

    folder: Path
    source: Tokenizer
    target: Tokenizer
    filters: Filters

    def __call__(self, shard: ShardPairs) -> dict[str, Any]:
        counts = PairCounts()
        batches = list(encoded_batches(shard.pairs, self.source, self.target, self.filters, counts))
        files = {}
        if batches:
            file = self.folder / f"train-{shard.number:05d}.arrow"
            header = Header.of(pa.Table.from_batches(batches))
            schema = SCHEMA.with_metadata({**SCHEMA.metadata, SHARD_KEY: header.to_bytes()})
            write_batches(file, batches, schema, counts)
            files[file.name] = checksum(file)
        return {"account": plain(counts), "files": files}


def write_shards(
    writer: ShardWriter, pairs: Iterable[Pair], sharding: Sharding, duplicates: Duplicates | None
) -> tuple[PairCounts, dict[str, int]]:
    """Write the shards that are not finished yet. Return the counts of all shards, and checksums by file name.

    The result depends on the pairs and settings only, not on the number of processes. Raises NoPairs if no pair is
    kept.
    """
    counts = PairCounts()
    records = dict[int, dict[str, Any]]()
    unfinished = sharding.unfinished

    def remaining() -> Iterator[ShardPairs]:
        distinct = without_duplicates(pairs, duplicates, counts)
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
        results = run_tasks(writer, remaining(), sharding.workers)
    with closing(results):
        for (number, _), record in results:
            if unfinished is not None:
                unfinished.write(f"{number:05d}", record)
            records[number] = record
            print_message(f"shard {number + 1}: {build(PairCounts, record['account']).lines()[0]}")
    checksums: dict[str, int] = {}
    for number in sorted(records):
        counts.add(build(PairCounts, records[number]["account"]))
        checksums |= records[number]["files"]
    counts.require_pairs("train")
    return counts, checksums
