"""A parallel corpus on disk: one Arrow IPC file of piece ids, texts and gold links, read by memory map."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from nmt.errors import UserError
from nmt.storage import replace_file
from nmt.text.pair import Pair
from nmt.text.tokenizer import Tokenizer

ROWS_PER_WRITE = 8192
FORMAT = b"1"
IDS = pa.list_(pa.int32())
SCHEMA = pa.schema(
    {
        "source_ids": IDS,
        "target_ids": IDS,
        "source": pa.string(),
        "target": pa.string(),
        "links": IDS,  # i₀ j₀ i₁ j₁ …, or null where there is no gold
    },
    metadata={b"nmt.corpus": FORMAT},
)


@dataclass
class Account:
    """What became of the pairs: how many were kept, how many dropped for which reason; lengths in pieces."""

    kept: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    source_pieces: int = 0
    target_pieces: int = 0

    @property
    def total(self) -> int:
        return self.kept + self.dropped.total()

    def lines(self) -> list[str]:
        """One line for what was kept, then one for each reason, the commonest first."""
        kept = f"{self.kept:,} of {self.total:,} pairs kept"
        sizes = f"{self.source_pieces:,} source and {self.target_pieces:,} target pieces"
        return [f"{kept}: {sizes}"] + [f"{n:,} dropped: {why}" for why, n in self.dropped.most_common()]

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
    """The account of what was written to ``path``; the file appears whole or not at all.

    Dropped are pairs with an empty side (unless ``keep_empty``: a test set stays whole), with a side longer
    than ``max_length`` pieces (``</s>`` not counted), or whose longer side has more than ``max_ratio`` times
    the pieces of the shorter.
    UserError: nothing is left, or the disk is full.
    """
    account = Account()
    with (
        replace_file(path) as temporary,
        open(temporary, "wb") as sink,
        pa.ipc.new_file(sink, SCHEMA) as writer,
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
                links = None if pair.links is None else [word for link in pair.links for word in link]
                rows.append((x, y, pair.source, pair.target, links))
            if rows:
                columns = zip(*rows, strict=True)
                arrays = [pa.array(values, of.type) for values, of in zip(columns, SCHEMA, strict=True)]
                writer.write_batch(pa.record_batch(arrays, schema=SCHEMA))
        if account.kept == 0:
            reasons = ", ".join(f"{n:,} {why}" for why, n in account.dropped.most_common()) or "none given"
            raise UserError(f"{path}: no pair of {account.total:,} is left ({reasons}); loosen the filters")
    return account


class Corpus:
    """The pairs of one Arrow file; nothing is read before it is asked for, and piece ids are never copied."""

    def __init__(self, path: Path, table: Any) -> None:
        self.path = path
        self._table = table
        self._source = _Lists(table.column("source_ids"))
        self._target = _Lists(table.column("target_ids"))
        self.source_lengths = self._source.lengths  # (rows,) int32, pieces without </s>
        self.target_lengths = self._target.lengths

    @classmethod
    def open(cls, path: str | Path) -> Corpus:
        """The corpus at ``path``, memory-mapped. UserError: missing, no corpus, or of a newer format."""
        remedy = "prepare the corpus again with nmt-prepare"
        try:
            reader = pa.ipc.open_file(pa.memory_map(str(path)))
            version = (reader.schema.metadata or {}).get(b"nmt.corpus")
            if version != FORMAT:
                raise UserError(f"{path}: corpus format {(version or b'none').decode()}, not 1; {remedy}")
            return cls(Path(path), reader.read_all())
        except FileNotFoundError:
            raise UserError(f"{path}: no such corpus; {remedy}") from None
        except (pa.ArrowException, OSError) as error:
            raise UserError(f"{path}: not a corpus ({str(error).splitlines()[0]}); {remedy}") from None

    def __reduce__(self) -> tuple[Any, ...]:
        return Corpus.open, (self.path,)  # a worker process maps the file anew

    def __len__(self) -> int:
        return len(self.source_lengths)

    def ids(self, row: int) -> tuple[np.ndarray, np.ndarray]:
        """Views of the (source, target) piece ids of one row, int32, without BOS and EOS."""
        return self._source[row], self._target[row]

    def sources(self) -> list[str]:
        texts: list[str] = self._table.column("source").to_pylist()
        return texts

    def targets(self) -> list[str]:
        texts: list[str] = self._table.column("target").to_pylist()
        return texts

    def links(self) -> list[tuple[tuple[int, int], ...]] | None:
        """Gold (source word, target word) links of every row; None where any row has none."""
        column = self._table.column("links")
        if column.null_count:
            return None
        return [tuple(zip(flat[::2], flat[1::2], strict=True)) for flat in column.to_pylist()]


class _Lists:
    """Zero-copy NumPy access to an Arrow column of integer lists, chunk by chunk."""

    def __init__(self, column: Any) -> None:
        self._values = [chunk.values.to_numpy() for chunk in column.chunks]
        self._offsets = [chunk.offsets.to_numpy() for chunk in column.chunks]
        self._starts = np.cumsum([0] + [len(offsets) - 1 for offsets in self._offsets])
        self.lengths: np.ndarray = np.concatenate([np.diff(offsets) for offsets in self._offsets])

    def __getitem__(self, row: int) -> np.ndarray:
        chunk = int(np.searchsorted(self._starts, row, side="right")) - 1
        within = row - int(self._starts[chunk])
        begin, end = self._offsets[chunk][within : within + 2]
        view: np.ndarray = self._values[chunk][begin:end]
        return view


def _groups(pairs: Iterable[Pair]) -> Iterator[list[Pair]]:
    remaining = iter(pairs)
    while group := list(islice(remaining, ROWS_PER_WRITE)):
        yield group


def _reason_to_drop(source: int, target: int, max_length: int | None, max_ratio: float | None) -> str | None:
    if source == 0:
        return "empty source"
    if target == 0:
        return "empty target"
    if max_length is not None and max(source, target) > max_length:
        return f"longer than {max_length} pieces"
    if max_ratio is not None and max(source, target) > max_ratio * min(source, target):
        return f"length ratio over {max_ratio:g}"
    return None
