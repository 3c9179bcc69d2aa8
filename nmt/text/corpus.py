"""A parallel corpus on disk: one memory-mapped Arrow file with piece ids, texts and gold links."""

from __future__ import annotations

import mmap
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow.compute import list_value_length

from nmt.data.filters import NO_FILTERS, Filters
from nmt.data.links import Link, Links, Pair
from nmt.errors import UserError, counted, reason
from nmt.files.atomic import replace_file
from nmt.system.processes import run_tasks
from nmt.text.coverage import Coverage
from nmt.text.sentences import AUTO, splitter
from nmt.text.tokenizer import Tokenizer, encodable

FIX = "prepare the text again with nmt-prepare"
IDS = pa.list_(pa.int32())
SCHEMA = pa.schema(
    {
        "source_ids": IDS,
        "target_ids": IDS,
        "source": pa.string(),
        "target": pa.string(),
        "links": IDS,  # sure links as i₀ j₀ i₁ j₁ …, or null if the pair has no gold alignment
        "possible": IDS,  # possible links that are not sure, in the same form
    }
)
ROWS_PER_WRITE = 8192
ROWS_IN_MEMORY = 1 << 20  # rows that are read before the pages of the file are given back


@dataclass(kw_only=True)
class PairCounts:
    """Counts of the pairs that were kept, and of those dropped for each reason; lengths in pieces.

    ``source`` and ``target`` count all pairs, also those that were dropped. ``in_train`` and ``sources_in_train`` are
    the pairs and sources of a validation or test part that also occur in the training part. ``several`` kept pairs have
    several sentences in their source; None: an earlier version did not count them.
    """

    kept: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    source_pieces: int = 0
    target_pieces: int = 0
    source: Coverage = field(default_factory=Coverage)
    target: Coverage = field(default_factory=Coverage)
    in_train: int = 0
    sources_in_train: int = 0
    empty: int = 0  # kept pairs with an empty side: only those of validation and test parts are kept
    several: int | None = None

    def __post_init__(self) -> None:
        self.dropped = Counter(self.dropped)  # a dictionary in JSON files

    @property
    def total(self) -> int:
        return self.kept + self.dropped.total()

    @property
    def single_sentences(self) -> bool:
        """Whether most sources are known to be single sentences."""
        return self.several is not None and 2 * self.several < self.kept

    @property
    def sides(self) -> dict[str, Coverage]:
        return {"source": self.source, "target": self.target}

    def add(self, other: PairCounts) -> None:
        """Add other counts to these."""
        for name, value in vars(other).items():
            if isinstance(value, int):
                setattr(self, name, (getattr(self, name) or 0) + value)
        self.dropped.update(other.dropped)
        self.source.add(other.source)
        self.target.add(other.target)

    def lines(self) -> list[str]:
        """Return a line about the kept pairs, one about those that the training part has too, and one per reason."""
        kept = f"{self.kept:,} of {counted(self.total, 'pair')} kept"
        lines = [f"{kept}: {self.source_pieces:,} source and {counted(self.target_pieces, 'target piece')}"]
        if self.sources_in_train:
            sources = f"{self.sources_in_train:,} of {counted(self.total, 'source')} also in the training text"
            learned = "; scores on it do not hold for new text" if 2 * self.sources_in_train > self.total else ""
            lines.append(f"{sources}, {self.in_train:,} with the same target{learned}")
        return lines + [f"{count:,} dropped: {reason}" for reason, count in self.dropped.most_common()]

    def require_pairs(self, part: str) -> None:
        """Raise UserError, with the reason, if no pair of this ``part`` of the data was kept."""
        if self.kept == 0:
            reasons = [f"{count:,} {reason}" for reason, count in self.dropped.most_common()]
            reasons += [f"{side}: {problem}" for side, counts in self.sides.items() if (problem := counts.problem())]
            why = (
                f"0 of {counted(self.total, 'pair')} kept ({', '.join(reasons)})" if reasons else "no pairs were given"
            )
            raise UserError(f"data.{part}: {why}; relax the filters or give more text")


def write_corpus(
    path: Path,
    pairs: Iterable[Pair],
    source: Tokenizer,
    target: Tokenizer,
    filters: Filters = NO_FILTERS,
    counts: PairCounts | None = None,
    *,
    workers: int = 1,
) -> PairCounts:
    """Write the pairs that the filters keep to ``path``, atomically, and return ``counts`` with theirs.

    The file does not depend on the number of processes. The texts are stored unchanged, except that lone surrogates,
    which UTF-8 cannot encode, become U+FFFD. Raises UserError if no pair is left, or if the disk is full.
    """
    counts = PairCounts() if counts is None else counts
    remaining = iter(pairs)
    groups = iter(lambda: list(islice(remaining, ROWS_PER_WRITE)), [])
    with replace_file(path) as stream, pa.ipc.new_file(stream, SCHEMA) as writer:
        for _, (batch, part) in run_tasks(partial(_encode, source, target, filters), groups, workers):
            counts.add(part)
            if len(batch):
                writer.write_batch(batch)
        counts.require_pairs(path.stem)
    return counts


def _encode(source: Tokenizer, target: Tokenizer, filters: Filters, pairs: list[Pair]) -> tuple[Any, PairCounts]:
    """Return the record batch of the pairs that the filters keep, and the counts of all pairs."""
    counts = PairCounts()
    rows = []
    sources, targets = [pair.source for pair in pairs], [pair.target for pair in pairs]
    source_ids, target_ids = source.encode_all(sources), target.encode_all(targets)
    counts.source.count(source, sources, source_ids)
    counts.target.count(target, targets, target_ids)
    for pair, x, y in zip(pairs, source_ids, target_ids, strict=True):
        if (why := filters.reason(pair, len(x), len(y))) is not None:
            counts.dropped[why] += 1
            continue
        counts.kept += 1
        counts.empty += not (x and y)
        counts.source_pieces += len(x)
        counts.target_pieces += len(y)
        links = None if pair.links is None else _flatten(pair.links)
        rows.append((x, y, encodable(pair.source), encodable(pair.target), links, _flatten(pair.possible)))
    sentences = splitter(AUTO)
    counts.several = sum(len(sentences(row[2], ())) > 1 for row in rows)
    columns = zip(*rows, strict=True) if rows else [()] * len(SCHEMA)
    arrays = [pa.array(values, column.type) for values, column in zip(columns, SCHEMA, strict=True)]
    return pa.record_batch(arrays, schema=SCHEMA), counts


class Corpus:
    """The sentence pairs of an Arrow file, which is memory-mapped. Piece ids are never copied.

    If the file is shortened while it is in use, the system ends the process with SIGBUS.
    """

    def __init__(self, path: Path) -> None:
        """Open the corpus at ``path``. Raises UserError if it is not one."""
        self.path = path
        try:
            with path.open("rb") as file:
                self._mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            reader = pa.ipc.open_file(pa.BufferReader(pa.py_buffer(self._mapped)))
            if not reader.schema.equals(SCHEMA):
                raise ValueError("other columns than nmt-prepare writes")
            self.table = reader.read_all()
        except (pa.ArrowException, OSError, ValueError) as error:
            raise UserError(f"{path}: not a corpus ({reason(error)}); {FIX}") from None
        self._source, self._target, self._links = (
            self.table.column(name) for name in ("source_ids", "target_ids", "links")
        )
        self._read = 0

    def __len__(self) -> int:
        return len(self.table)

    @cached_property
    def source_lengths(self) -> np.ndarray:
        """The source pieces of each row, without ``</s>``: int32 (rows,)."""
        return self._lengths(self._source)

    @cached_property
    def target_lengths(self) -> np.ndarray:
        """The target pieces of each row, without ``</s>``: int32 (rows,)."""
        return self._lengths(self._target)

    def _lengths(self, lists: Any) -> np.ndarray:
        lengths: np.ndarray = list_value_length(lists).to_numpy()
        self._give_back()
        return lengths

    def _give_back(self) -> None:
        """Let the system drop the pages of the file that were read: it counts them as memory of this process."""
        if hasattr(mmap, "MADV_DONTNEED"):
            self._mapped.madvise(mmap.MADV_DONTNEED)

    def ids(self, row: int) -> tuple[np.ndarray, np.ndarray]:
        """Return views of the (source, target) piece ids of one row: int32, without BOS and EOS."""
        return _view(self._source, row), _view(self._target, row)

    def batch(self, rows: Sequence[int]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return the piece ids of these rows; see ``ids``."""
        self._read += len(rows)
        if self._read > ROWS_IN_MEMORY:
            self._read = 0
            self._give_back()
        return [self.ids(row) for row in rows]

    def texts(self, row: int) -> tuple[str, str]:
        """Return the source and target text of one row."""
        return self.table.column("source")[row].as_py(), self.table.column("target")[row].as_py()

    def sources(self) -> list[str]:
        texts: list[str] = self.table.column("source").to_pylist()
        return texts

    def targets(self) -> list[str]:
        texts: list[str] = self.table.column("target").to_pylist()
        return texts

    def sure_links(self, row: int) -> np.ndarray:
        """Return a view of the sure gold links (source word, target word) of one row: int32 (links, 2)."""
        return _view(self._links, row).reshape(-1, 2)

    def length_model(self) -> tuple[float, float]:
        """Return m and v: the target of a source of S pieces, ``</s>`` included, has m·S pieces, with the variance v·S.

        Gale & Church (1993), A Program for Aligning Sentences in Bilingual Corpora.
        """
        sources, targets = self.source_lengths + 1.0, self.target_lengths
        ratio = targets.sum() / sources.sum()
        return float(ratio), float(((targets - ratio * sources) ** 2 / sources).mean())

    def longest_source(self) -> tuple[int, int]:
        """Return the most source pieces of a row, without ``</s>``, and the first such row."""
        row = int(self.source_lengths.argmax())
        return int(self.source_lengths[row]), row

    @property
    def has_links(self) -> bool:
        """Whether every row has a gold alignment."""
        return not self.table.column("links").null_count

    def links(self) -> list[Links] | None:
        """Return the gold links of every row, or None if any row has no gold alignment."""
        if not self.has_links:
            return None
        columns = [self.table.column(name).to_pylist() for name in ("links", "possible")]
        return [
            Links(sure := _unflatten(links), sure | _unflatten(possible))
            for links, possible in zip(*columns, strict=True)
        ]


def _view(lists: Any, row: int) -> np.ndarray:
    view: np.ndarray = lists[row].values.to_numpy()
    return view


def _flatten(links: Iterable[Link]) -> list[int]:
    return [word for link in links for word in link]


def _unflatten(flat: list[int]) -> frozenset[Link]:
    return frozenset(zip(flat[::2], flat[1::2], strict=True))
