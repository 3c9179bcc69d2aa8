"""Sentence pairs from tables: tab-separated text, JSON lines and Parquet. The data source of ``data=table``."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nmt.errors import UserError, counted
from nmt.tasks.from_python import rows_as_pairs
from nmt.text.files import read_lines

TAB_SEPARATED = (".tsv", ".tsv.gz")
TEXT_FORMATS = (*TAB_SEPARATED, ".jsonl", ".jsonl.gz")
PARQUET = ".parquet"
ROWS_PER_READ = 8192


class Tables:
    """A data source: call it for the pairs of every part that is given, which are read when they are iterated.

    The end of a file's name says what it is: ``.tsv``, ``.jsonl`` (both also ``.gz``) or ``.parquet``. ``columns``
    names the source and the target column; without it, a ``.tsv`` file has no header, and its first two columns are
    read.
    File names are relative to ``folder``, or to the working directory. The constructor raises ValueError for missing
    files, unknown formats and missing names of columns.
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
        if problems := [problem for part, file in self.files.items() for problem in self._problems(part, file)]:
            raise ValueError("\n".join(problems))

    def __call__(self) -> dict[str, Iterable[Any]]:
        return {part: Table(file, part, self.columns) for part, file in self.files.items()}

    def _problems(self, part: str, file: Path) -> Iterator[str]:
        if not os.path.isfile(file):
            yield f"data.{part}={file}: {'a folder, not a file' if os.path.isdir(file) else 'no such file'}"
        elif not file.name.endswith((*TEXT_FORMATS, PARQUET)):
            yield f"data.{part}={file}: unknown format; use a file that ends in .tsv, .jsonl or .parquet"
        elif self.columns is None and not file.name.endswith(TAB_SEPARATED):
            yield f"data.columns=null: {file} needs the names of its columns, such as data.columns=[en,de]"


@dataclass(frozen=True)
class Table:
    """The (source, target) pairs of one file, which is read again for each iteration."""

    file: Path
    part: str
    columns: Sequence[str] | None

    def __iter__(self) -> Iterator[Any]:
        if self.file.name.endswith(TAB_SEPARATED):
            return self._tab_separated()
        rows = self._parquet() if self.file.name.endswith(PARQUET) else self._json_lines()
        return rows_as_pairs(rows, self.part, self.columns)

    def _tab_separated(self) -> Iterator[tuple[str, str]]:
        places = (0, 1)
        for number, line in enumerate(read_lines(self.file), start=1):
            cells = line.split("\t")
            if number == 1 and self.columns is not None:
                places = self._places(cells)
                continue
            if len(cells) <= max(places):
                wanted = f"at least {max(places) + 1} are needed, separated by tabs"
                raise UserError(f"{self.file}:{number}: {counted(len(cells), 'column')}; {wanted}")
            yield cells[places[0]], cells[places[1]]

    def _places(self, header: list[str]) -> tuple[int, int]:
        assert self.columns is not None
        for column in self.columns:
            if column not in header:
                raise UserError(f"{self.file}:1: no column {column}; choose from {', '.join(header)}"[:500])
        return header.index(self.columns[0]), header.index(self.columns[1])

    def _json_lines(self) -> Iterator[Mapping[str, Any]]:
        for number, line in enumerate(read_lines(self.file), start=1):
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                row = None
            if not isinstance(row, dict):
                raise UserError(f"{self.file}:{number}: not a JSON object; write one per line")
            yield row

    def _parquet(self) -> Iterator[Mapping[str, Any]]:
        import pyarrow as pa
        from pyarrow.parquet import ParquetFile

        try:
            with ParquetFile(self.file) as table:
                for batch in table.iter_batches(ROWS_PER_READ, columns=self._stored_columns(table.schema_arrow.names)):
                    yield from batch.to_pylist()
        except (pa.ArrowException, OSError) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise UserError(f"{self.file}: not a Parquet file ({reason}); get a new copy of it") from None

    def _stored_columns(self, names: list[str]) -> list[str] | None:
        """Return the columns to read; None reads all, among which the pair may be nested."""
        return list(self.columns) if self.columns is not None and set(self.columns) <= set(names) else None
