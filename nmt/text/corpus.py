"""A parallel corpus on disk: one Arrow IPC file with piece ids, texts and gold links."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from nmt.errors import UserError, counted
from nmt.storage import replace_file, require_format
from nmt.text.corpus_checks import check_table
from nmt.text.links import Link, Links
from nmt.text.pair import Pair
from nmt.text.tokenizer import Tokenizer

ROWS_PER_WRITE = 8192
MAPPED_BYTES = 1 << 30  # larger files are memory-mapped
CHARACTERS_PER_WRITE = 1 << 26  # per side: the texts of a batch must stay below 2 GB
SURROGATE = re.compile("[\ud800-\udfff]")
FORMAT = 2
FORMAT_KEY = b"nmt.corpus"
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


@dataclass
class Account:
    """Counts of the pairs that were kept, and of those dropped for each reason; lengths in pieces."""

    kept: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    source_pieces: int = 0
    target_pieces: int = 0

    @property
    def total(self) -> int:
        return self.kept + self.dropped.total()

    def lines(self) -> list[str]:
        """Return one line about the kept pairs, then one for each reason, most frequent first."""
        kept = f"{self.kept:,} of {counted(self.total, 'pair')} kept"
        sizes = f"{self.source_pieces:,} source and {counted(self.target_pieces, 'target piece')}"
        return [f"{kept}: {sizes}"] + [f"{count:,} dropped: {reason}" for reason, count in self.dropped.most_common()]

    def __str__(self) -> str:
        return "\n".join(self.lines())


def write_corpus(
    path: str | Path,
    pairs: Iterable[Pair],
    source: Tokenizer,
    target: Tokenizer,
    *,
    max_length: int | None,
    max_ratio: float | None,
    keep_empty: bool = False,
) -> Account:
    """Write a corpus to ``path`` atomically and return how many pairs were kept and dropped.

    A pair is dropped if a side is empty (unless ``keep_empty``, for test sets), if a side is longer than
    ``max_length`` pieces (not counting ``</s>``), or if the longer side has more than ``max_ratio`` times the pieces
    of the shorter one. The texts are stored unchanged, except that lone surrogates, which UTF-8 cannot encode, become
    U+FFFD. Raises UserError if no pair is left or the disk is full.
    """
    account = Account()
    with (
        replace_file(path) as temporary,
        open(temporary, "wb") as stream,
        pa.ipc.new_file(stream, SCHEMA) as writer,
    ):
        for group in _groups(pairs):
            rows = []
            source_ids = source.encode_all([pair.source for pair in group])
            target_ids = target.encode_all([pair.target for pair in group])
            for pair, x, y in zip(group, source_ids, target_ids, strict=True):
                reason = _reason_to_drop(len(x), len(y), max_length, max_ratio)
                if keep_empty and not (x and y):
                    reason = None
                if reason is not None:
                    account.dropped[reason] += 1
                    continue
                account.kept += 1
                account.source_pieces += len(x)
                account.target_pieces += len(y)
                links = None if pair.links is None else _flatten(pair.links)
                texts = (SURROGATE.sub("\ufffd", text) for text in (pair.source, pair.target))
                rows.append((x, y, *texts, links, _flatten(pair.possible)))
            if rows:
                columns = zip(*rows, strict=True)
                arrays = [pa.array(values, column.type) for values, column in zip(columns, SCHEMA, strict=True)]
                writer.write_batch(pa.record_batch(arrays, schema=SCHEMA))
        if account.kept == 0:
            reasons = ", ".join(f"{count:,} {reason}" for reason, count in account.dropped.most_common())
            detail = f"0 of {counted(account.total, 'pair')} kept ({reasons})" if reasons else "no pairs were given"
            raise UserError(f"{path}: {detail}; relax the filters or give more text")
    return account


class Corpus:
    """The sentence pairs of one Arrow file. Piece ids are never copied.

    A file of up to 1 GB is read into memory, so that nothing that happens to the file later matters. A larger one is
    memory-mapped: if it is shortened while it is in use, the system ends the process with SIGBUS.
    """

    def __init__(self, path: Path, table: Any) -> None:
        self.path = path
        self._table = table
        self._source = _Lists(table.column("source_ids"))
        self._target = _Lists(table.column("target_ids"))
        self._links = _Lists(table.column("links"))
        self.source_lengths = self._source.lengths  # (rows,) int32, pieces without </s>
        self.target_lengths = self._target.lengths

    @classmethod
    def open(cls, path: str | Path, *, vocabularies: tuple[int, int] | None = None) -> Corpus:
        """Open the corpus at ``path`` and check all of it except for the words of its texts.

        ``vocabularies`` are the numbers of source and target pieces, which the ids must stay below. Raises UserError
        if the file is missing, is not a corpus, or has another format version.
        """
        path, fix = Path(path), "prepare the corpus again with nmt-prepare"
        if not path.is_file():  # a pipe would never end
            raise UserError(f"{path}: no such corpus; {fix}")
        try:
            # Reading takes as long as mapping, because all of it is checked: 93 and 88 ms for 1,000,000 pairs.
            mapped = path.stat().st_size > MAPPED_BYTES
            reader = pa.ipc.open_file(pa.memory_map(str(path)) if mapped else pa.OSFile(str(path)).read_buffer())
            require_format((reader.schema.metadata or {}).get(FORMAT_KEY), FORMAT, place=path, fix=fix)
            if not reader.schema.equals(SCHEMA, check_metadata=True):
                raise ValueError("other columns than nmt-prepare writes")
            table = reader.read_all()
            check_table(table, vocabularies)
        except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise UserError(f"{path}: not a corpus ({reason}); {fix}") from None
        return cls(path, table)

    def __reduce__(self) -> tuple[Any, ...]:
        return Corpus.open, (self.path,)  # a worker process opens the file itself

    def __len__(self) -> int:
        return len(self.source_lengths)

    def ids(self, row: int) -> tuple[np.ndarray, np.ndarray]:
        """Return views of the (source, target) piece ids of one row: int32, without BOS and EOS."""
        return self._source[row], self._target[row]

    def sources(self) -> list[str]:
        texts: list[str] = self._table.column("source").to_pylist()
        return texts

    def targets(self) -> list[str]:
        texts: list[str] = self._table.column("target").to_pylist()
        return texts

    def sure_links(self, row: int) -> np.ndarray:
        """Return a view of the sure gold links (source word, target word) of one row: int32 (links, 2)."""
        return self._links[row].reshape(-1, 2)

    @property
    def has_links(self) -> bool:
        """Whether every row has a gold alignment."""
        return not self._table.column("links").null_count

    def links(self) -> list[Links] | None:
        """Return the gold links of every row, or None if any row has no gold alignment."""
        if not self.has_links:
            return None
        links, possible = self._table.column("links"), self._table.column("possible")
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
            group, characters = [], 0
        group.append(pair)
        characters += longer
    if group:
        yield group


def _reason_to_drop(source: int, target: int, max_length: int | None, max_ratio: float | None) -> str | None:
    if source == 0:
        return "empty source"
    if target == 0:
        return "empty target"
    if max_length is not None and max(source, target) > max_length:
        return f"longer than {counted(max_length, 'piece')}"
    if max_ratio is not None and max(source, target) > max_ratio * min(source, target):
        return f"length ratio over {max_ratio:g}"
    return None


def _flatten(links: Iterable[Link]) -> list[int]:
    return [word for link in links for word in link]


def _unflatten(flat: list[int]) -> frozenset[Link]:
    return frozenset(zip(flat[::2], flat[1::2], strict=True))
