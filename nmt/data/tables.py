"""Sentence pairs from tables: tab-separated text, CSV, JSON lines and Parquet. The data source of ``data=table``."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nmt.data.sources import NESTED, column_problem, rows_as_pairs
from nmt.data.text_files import missing_problem, read_lines
from nmt.errors import UserError, reason
from nmt.files.reading import format_ending, opener

ENDINGS = (".tsv", ".csv", ".jsonl", ".parquet")
BLOCK_BYTES = 1 << 24  # a row must be shorter


class Tables:
    """A data source: call it for the pairs of every part that is given, which are read when they are iterated.

    The end of a file's name says what it is: ``.tsv``, ``.csv``, ``.jsonl`` (all also ``.gz``, ``.xz`` or ``.bz2``) or
    ``.parquet``. ``columns`` names the source and the target column; without it, a ``.tsv`` file has no header, and its
    first two columns are read. File names are relative to ``folder``, or to the working directory. The constructor
    raises ValueError for missing files, unknown formats and missing names of columns.
    """

    def __init__(
        self,
        *,
        train: str,
        valid: str | None = None,
        test: str | None = None,
        columns: tuple[str, str] | None = None,
        folder: str | None = None,
    ) -> None:
        names = {"train": train, "valid": valid, "test": test}
        self.files = {part: Path(folder or ".", name) for part, name in names.items() if name is not None}
        self.columns = columns
        problems = [problem for part, file in self.files.items() for problem in self._problems(part, file)]
        if problems := problems + list(filter(None, [column_problem(columns)])):
            raise ValueError("\n".join(problems))

    def __call__(self) -> dict[str, Iterable[Any]]:
        return {part: TableFile(file, part, self.columns) for part, file in self.files.items()}

    def _problems(self, part: str, file: Path) -> Iterator[str]:
        if not os.path.isfile(file):
            yield f"data.{part}={file}: {missing_problem(file)}"
        elif (ending := format_ending(file.name)) not in ENDINGS:
            yield f"data.{part}={file}: unknown format; use a file that ends in .tsv, .csv, .jsonl or .parquet"
        elif self.columns is None and ending != ".tsv":
            yield f"data.columns=null: {file} needs the names of its columns, such as data.columns=[en,de]"


@dataclass(frozen=True)
class TableFile:
    """The (source, target) pairs of one file, which is read again for each iteration."""

    file: Path
    part: str
    columns: Sequence[str] | None

    def __iter__(self) -> Iterator[Any]:
        import pyarrow as pa

        ending = format_ending(self.file.name)
        read = {".parquet": self._parquet, ".jsonl": self._json_lines}.get(ending, self._separated)
        try:
            yield from read()
        except KeyError as error:
            raise UserError(f"{self.file}: {reason(error)}; name two of its columns, as data.columns=[en,de]") from None
        except (pa.ArrowException, OSError, EOFError, UnicodeDecodeError) as error:
            raise UserError(f"{self.file}: cannot be read ({reason(error)}); write the table again") from None

    def _separated(self) -> Iterator[tuple[str, str]]:
        """Yield the pairs of a file with delimiters. All rows have as many cells as the first."""
        import pyarrow as pa
        from pyarrow.csv import ConvertOptions, ParseOptions, ReadOptions, open_csv

        is_csv = format_ending(self.file.name) == ".csv"
        names = list(self.columns or ("f0", "f1"))
        reading = ReadOptions(block_size=BLOCK_BYTES, autogenerate_column_names=self.columns is None)
        parsing = ParseOptions(
            delimiter="," if is_csv else "\t",
            quote_char='"' if is_csv else False,
            newlines_in_values=is_csv,
            ignore_empty_lines=False,
        )
        converting = ConvertOptions(include_columns=names, column_types=dict.fromkeys(names, pa.string()))
        with opener(str(self.file))(self.file, "rb") as stream, open_csv(stream, reading, parsing) as reader:
            self._require_once(reader.schema.names)
        with opener(str(self.file))(self.file, "rb") as stream:
            for batch in open_csv(stream, reading, parsing, converting):
                yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)

    def _json_lines(self) -> Iterator[Any]:
        return rows_as_pairs(self._objects(), self.part, self.columns)

    def _objects(self) -> Iterator[Mapping[str, Any]]:
        for number, line in enumerate(read_lines(self.file), start=1):
            try:
                row = json.loads(line, object_pairs_hook=self._object)
            except (ValueError, RecursionError):
                row = None
            if not isinstance(row, dict):
                raise UserError(f"{self.file}:{number}: not a JSON object; write one per line")
            yield row

    def _object(self, items: list[tuple[str, Any]]) -> dict[str, Any]:
        row = dict(items)
        if len(row) < len(items):
            self._require_once([name for name, _ in items])
        return row

    def _parquet(self) -> Iterator[Any]:
        """Yield the pairs of a file with both columns, or with a column ``translation`` that holds them."""
        from pyarrow.parquet import ParquetFile
        from pyarrow.types import is_struct

        names = list(self.columns or ())
        with ParquetFile(self.file) as table:
            schema = table.schema_arrow
            if NESTED in schema.names and is_struct(schema.field(NESTED).type):  # it may also hold texts
                names = [f"{NESTED}.{name}" for name in names]
                schema = schema.field(NESTED).type
            self._require_once([field.name for field in schema])
            rows = (row for batch in table.iter_batches(columns=names) for row in batch.to_pylist())
            yield from rows_as_pairs(rows, self.part, self.columns)

    def _require_once(self, names: Sequence[str]) -> None:
        """Raise UserError if a column that is read has the name of another one of the ``names``."""
        for name in self.columns or ():
            if names.count(name) > 1:
                raise UserError(f"{self.file}: has {names.count(name)} columns {name!r}; rename the others")
