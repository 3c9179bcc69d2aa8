"""A parallel corpus on disk: one Arrow IPC file with piece ids, texts and gold links."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unicodedata import is_normalized

import numpy as np
import pyarrow as pa

from nmt.data.filters import NO_FILTERS, Filters
from nmt.data.links import Link, Links
from nmt.data.pair import Pair
from nmt.errors import UserError, counted, reason
from nmt.files.atomic import replace_file
from nmt.files.checksum import require_format
from nmt.text.pair_counts import PairCounts
from nmt.text.specials import EOS, UNK
from nmt.text.tokenizer import Tokenizer

FORMAT = 2
FORMAT_KEY = b"nmt.corpus"
SHARD_KEY = b"nmt.shard"  # metadata of a file that is one shard of a large corpus
FIX = "prepare the corpus again with nmt-prepare"
IDS = pa.list_(pa.int32())
SCHEMA = pa.schema(
    {
        "source_ids": IDS,
        "target_ids": IDS,
        "source": pa.string(),
        "target": pa.string(),
        "links": IDS,  # sure links as i₀ j₀ i₁ j₁ …, or null if the pair has no gold alignment
        "possible": IDS,  # possible links that are not sure, in the same form
    },
    metadata={FORMAT_KEY: str(FORMAT).encode()},
)
MAX_ID = np.iinfo(np.int32).max
ROWS_PER_WRITE = 8192
MAPPED_BYTES = 1 << 30  # larger files are memory-mapped
CHARACTERS_PER_WRITE = 1 << 26  # per side: the texts of a batch must stay below 2 GB
SURROGATE = re.compile("[\ud800-\udfff]")


def write_corpus(
    path: str | Path,
    pairs: Iterable[Pair],
    source: Tokenizer,
    target: Tokenizer,
    filters: Filters = NO_FILTERS,
    counts: PairCounts | None = None,
) -> PairCounts:
    """Write the pairs that the filters keep to ``path``, atomically, and return ``counts`` with theirs.

    The texts are stored unchanged, except that lone surrogates, which UTF-8 cannot encode, become U+FFFD. Raises
    UserError if no pair is left or the disk is full.
    """
    counts = counts or PairCounts()
    write_batches(path, encoded_batches(pairs, source, target, filters, counts), SCHEMA, counts)
    return counts


def write_batches(path: str | Path, batches: Iterable[Any], schema: Any, counts: PairCounts) -> None:
    """Write record batches to ``path`` atomically. Raises NoPairs if ``counts`` then has no pair."""
    with replace_file(path) as stream, pa.ipc.new_file(stream, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
        counts.require_pairs(Path(path).stem)


def encoded_batches(
    pairs: Iterable[Pair], source: Tokenizer, target: Tokenizer, filters: Filters, counts: PairCounts
) -> Iterator[Any]:
    """Yield record batches of the pairs that the filters keep, and count all pairs in ``counts``."""
    normalises = source.normalises or target.normalises
    for group in _groups(pairs):
        rows = []
        sources = [pair.source for pair in group]
        targets = [pair.target for pair in group]
        source_ids = source.encode_all(sources)
        target_ids = target.encode_all(targets)
        counts.source.count(source, sources, source_ids)
        counts.target.count(target, targets, target_ids)
        for pair, x, y in zip(group, source_ids, target_ids, strict=True):
            if (why := filters.reason(pair, len(x), len(y))) is not None:
                counts.dropped[why] += 1
                continue
            counts.kept += 1
            counts.empty += not (x and y)
            counts.source_pieces += len(x)
            counts.target_pieces += len(y)
            counts.normalised += normalises and not all(is_normalized("NFKC", text) for text in pair[:2])
            links = None if pair.links is None else _flatten(pair.links)
            rows.append((x, y, _encodable(pair.source), _encodable(pair.target), links, _flatten(pair.possible)))
        if rows:
            columns = zip(*rows, strict=True)
            arrays = [pa.array(values, column.type) for values, column in zip(columns, SCHEMA, strict=True)]
            yield pa.record_batch(arrays, schema=SCHEMA)


def _encodable(text: str) -> str:
    """Return ``text`` with U+FFFD for each lone surrogate, which UTF-8 cannot encode."""
    return text if text.isascii() else SURROGATE.sub("\ufffd", text)


class Corpus:
    """The sentence pairs of one Arrow file. Piece ids are never copied.

    A file of up to 1 GB is read into memory, so later changes of the file have no effect. A larger one is
    memory-mapped: if it is shortened while it is in use, the system ends the process with SIGBUS.
    """

    def __init__(self, path: Path, table: Any) -> None:
        self.path = path
        self.table = table
        self._source = _Lists(table.column("source_ids"))
        self._target = _Lists(table.column("target_ids"))
        self._links = _Lists(table.column("links"))

    @classmethod
    def open(
        cls, path: str | Path, *, vocabularies: tuple[int, int] | None = None, mapped: bool | None = None
    ) -> Corpus:
        """Open the corpus at ``path`` and check all of it except for the words of its texts.

        ``vocabularies`` are the numbers of source and target pieces, which the ids must stay below. ``mapped`` says
        whether the file is memory-mapped; None decides by its size. Raises UserError if the file is missing, is not a
        corpus, or has another format version.
        """
        path = Path(path)
        with corpus_errors(path):
            # Reading takes as long as mapping, because all of it is checked: 93 and 88 ms for 1,000,000 pairs.
            mapped = path.stat().st_size > MAPPED_BYTES if mapped is None else mapped
            table = open_arrow(path, mapped=mapped).read_all()
            check_table(table, vocabularies)
        return cls(path, table)

    def __len__(self) -> int:
        return len(self.table)

    @property
    def source_lengths(self) -> np.ndarray:
        """The source pieces of each row, without ``</s>``: int32 (rows,)."""
        return self._source.lengths

    @property
    def target_lengths(self) -> np.ndarray:
        """The target pieces of each row, without ``</s>``: int32 (rows,)."""
        return self._target.lengths

    def ids(self, row: int) -> tuple[np.ndarray, np.ndarray]:
        """Return views of the (source, target) piece ids of one row: int32, without BOS and EOS."""
        return self._source[row], self._target[row]

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
        return self._links[row].reshape(-1, 2)

    def longest_source(self) -> tuple[int, int]:
        """Return the most source pieces of a row, without ``</s>``, and the first such row."""
        row = int(self.source_lengths.argmax())
        return int(self.source_lengths[row]), row

    def head(self) -> Corpus:
        """Return the part of the corpus that fits into memory: all of it, or the first shard."""
        return self

    @property
    def has_links(self) -> bool:
        """Whether every row has a gold alignment."""
        return not self.table.column("links").null_count

    def links(self) -> list[Links] | None:
        """Return the gold links of every row, or None if any row has no gold alignment."""
        if not self.has_links:
            return None
        links = self.table.column("links")
        possible = self.table.column("possible")
        golds = []
        for flat_sure, flat_possible in zip(links.to_pylist(), possible.to_pylist(), strict=True):
            sure = _unflatten(flat_sure)
            golds.append(Links(sure, sure | _unflatten(flat_possible)))
        return golds


class _Lists:
    """Zero-copy NumPy access to an Arrow column of integer lists, chunk by chunk."""

    def __init__(self, column: Any) -> None:
        self._values = [chunk.values.to_numpy() for chunk in column.chunks]
        self._offsets = [chunk.offsets.to_numpy() for chunk in column.chunks]
        self._starts = np.cumsum([0] + [len(offsets) - 1 for offsets in self._offsets])
        self.lengths: np.ndarray = np.concatenate([np.diff(offsets) for offsets in self._offsets])

    def __getitem__(self, row: int) -> np.ndarray:
        chunk = int(np.searchsorted(self._starts, row, side="right")) - 1
        row_in_chunk = row - int(self._starts[chunk])
        begin, end = self._offsets[chunk][row_in_chunk : row_in_chunk + 2]
        view: np.ndarray = self._values[chunk][begin:end]
        return view


def _groups(pairs: Iterable[Pair]) -> Iterator[list[Pair]]:
    """Yield the pairs in lists that fit into one record batch."""
    group: list[Pair] = []
    characters = 0
    for pair in pairs:
        longer = max(len(pair.source), len(pair.target))
        if group and (len(group) == ROWS_PER_WRITE or characters + longer > CHARACTERS_PER_WRITE):
            yield group
            group = []
            characters = 0
        group.append(pair)
        characters += longer
    if group:
        yield group


def _flatten(links: Iterable[Link]) -> list[int]:
    return [word for link in links for word in link]


def _unflatten(flat: list[int]) -> frozenset[Link]:
    return frozenset(zip(flat[::2], flat[1::2], strict=True))


@contextmanager
def corpus_errors(path: Path) -> Iterator[None]:
    """Turn the errors of reading a damaged or missing corpus into a UserError that names it."""
    if not path.is_file():  # a pipe would never end
        raise UserError(f"{path}: no such corpus; {FIX}")
    try:
        yield
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        raise UserError(f"{path}: not a corpus ({reason(error)}); {FIX}") from None


def open_arrow(path: Path, *, mapped: bool) -> Any:
    """Return the Arrow reader of a corpus file. Raises ValueError or UserError for other columns or versions."""
    name = os.fsencode(path)  # as text, pyarrow accepts UTF-8 names only
    reader = pa.ipc.open_file(pa.memory_map(name) if mapped else pa.OSFile(name).read_buffer())
    metadata = reader.schema.metadata or {}
    require_format(metadata.get(FORMAT_KEY), FORMAT, name=path, fix=FIX)
    if not reader.schema.equals(SCHEMA) or metadata.keys() - {FORMAT_KEY, SHARD_KEY}:
        raise ValueError("other columns than nmt-prepare writes")
    return reader


def check_table(table: Any, vocabularies: tuple[int, int] | None) -> None:
    """Raise ValueError unless the Arrow table, which has a corpus's schema, could come from ``write_corpus``.

    ``vocabularies`` are the numbers of source and target pieces, if known. Without these checks, a wrong offset ends
    the process with SIGSEGV. 40,000 pairs take 6 ms.
    """
    table.validate(full=True)  # offsets, sizes of buffers, counts of nulls, UTF-8; raises ArrowInvalid, a ValueError
    if not len(table):
        raise ValueError("it holds no pairs")
    for name, column in zip(table.column_names, table.columns, strict=True):
        # Arrow allows an empty array without offsets, which cannot be read without copies.
        if not all(len(chunk) for chunk in column.chunks):
            raise ValueError(f"{name}: an empty batch of rows")
        if column.null_count and name != "links":
            raise ValueError(f"{name}: {counted(column.null_count, 'missing value')}")
    source_pieces, target_pieces = vocabularies or (MAX_ID, MAX_ID)
    _check_ids(table.column("source_ids"), "source_ids", source_pieces)
    _check_ids(table.column("target_ids"), "target_ids", target_pieces)
    for name in ("links", "possible"):
        _check_links(table.column(name), name)


def _check_ids(column: Any, name: str, vocabulary: int) -> None:
    """Raise ValueError unless every id is UNK or an ordinary piece of the vocabulary."""
    for chunk in column.chunks:
        ids = _values(chunk, name)
        if not ((ids > EOS) | (ids == UNK)).all() or ids.max(initial=0) >= vocabulary:
            raise ValueError(f"{name}: ids outside the vocabulary of the tokenizer")


def _check_links(column: Any, name: str) -> None:
    """Raise ValueError unless every list holds pairs of word numbers."""
    for chunk in column.chunks:
        lengths = np.diff(chunk.offsets.to_numpy())
        if (lengths % 2).any() or _values(chunk, name).min(initial=0) < 0:
            raise ValueError(f"{name}: not pairs of word numbers")


def _values(chunk: Any, name: str) -> np.ndarray:
    values = chunk.flatten()
    if values.null_count:
        raise ValueError(f"{name}: {counted(values.null_count, 'missing value')}")
    numbers: np.ndarray = values.to_numpy()
    return numbers
