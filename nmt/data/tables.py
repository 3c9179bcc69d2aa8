"""Sentence pairs from tables: tab-separated text, CSV, JSON lines and Parquet. The data source of ``data=table``."""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from nmt.data.from_python import NESTED, column_problem, rows_as_pairs
from nmt.data.text_files import cr_problem, missing_problem, read_lines, require_newlines
from nmt.errors import UserError, counted, print_message, reason
from nmt.files.compression import format_ending
from nmt.settings.arguments import suggestion

TAB_SEPARATED, CSV, JSON_LINES, PARQUET = ".tsv", ".csv", ".jsonl", ".parquet"  # in any case of letters
DELIMITERS = (",", ";", "\t", "|")  # of .csv files; spreadsheets of some languages write ;
ROWS_PER_READ = 8192
QUOTED_ROWS = 20  # a .tsv file whose first rows have quotes around every cell is one that a CSV program wrote
# Words of names of columns, such as source_text, that are hardly ever all words of a first sentence.
HEADERS = frozenset(
    "source target src tgt trg input output text sentence sentences translation quelle ziel deutsch englisch 中文 英文 "
    "english german french spanish chinese en de fr pt nl cs pl ru zh ja ko tr fi sv vi ro hu uk ar hi us gb cn br "
    "eng deu ger fra el he fa th ka hy bg sr hr sk sl rus ukr kor jpn zho cmn tur ara ell heb vie korean japanese "
    "turkish arabic greek hebrew russian ukrainian vietnamese hindi italian portuguese polish dutch czech "
    "한국어 영어 日本語 英語 русский английский українська англійська türkçe ingilizce ελληνικά αγγλικά "
    "العربية الإنجليزية עברית אנגלית فارسی انگلیسی français anglais español inglés italiano inglese português".split()
)


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
        if self.columns is None:
            for file in self.files.values():
                _warn_of_header(file)
        return {part: TableFile(file, part, self.columns) for part, file in self.files.items()}

    def _problems(self, part: str, file: Path) -> Iterator[str]:
        if not os.path.isfile(file):
            advice = f"; use data=hub data.path={file} if its files are Parquet" if os.path.isdir(file) else ""
            yield f"data.{part}={file}: {missing_problem(file)}{advice}"
        elif (ending := _ending(file)) not in (TAB_SEPARATED, CSV, JSON_LINES, PARQUET):
            yield f"data.{part}={file}: unknown format; use a file that ends in .tsv, .csv, .jsonl or .parquet"
        elif self.columns is None and ending != TAB_SEPARATED:
            yield f"data.columns=null: {file} needs the names of its columns, such as data.columns=[en,de]"


def _warn_of_header(file: Path) -> None:
    """Print a warning if the first row of a table without a header consists of names of columns."""
    names = [cell.strip() for cell in next(read_lines(file)).split("\t")]
    words = [{*re.findall(r"[^\W\d_]+", name.replace("İ", "i").lower())} for name in names]
    headings = [name for name, parts in zip(names, words, strict=True) if parts and parts <= HEADERS]
    if len(headings) > 1:
        columns = ",".join(headings[:2])
        print_message(f"warning: {file}:1: read as a pair, but looks like a header; set data.columns=[{columns}]")


@dataclass(frozen=True)
class TableFile:
    """The (source, target) pairs of one file, which is read again for each iteration."""

    file: Path
    part: str
    columns: Sequence[str] | None

    def __iter__(self) -> Iterator[Any]:
        ending = _ending(self.file)
        if ending == TAB_SEPARATED:
            return self._separated(self._tab_separated_rows())
        if ending == CSV:
            return self._separated(self._csv_rows())
        rows = self._parquet() if ending == PARQUET else self._json_lines()
        return rows_as_pairs(rows, self.part, self.columns)

    def _separated(self, rows: Iterator[tuple[int, list[str]]]) -> Iterator[tuple[str, str]]:
        """Yield the pairs of rows that come with the number of their line. All have as many cells as the first."""
        number, first = next(rows)
        source, target = self._column_indices(first)
        if self.columns is None:
            yield first[source], first[target]
        for number, cells in rows:
            if len(cells) != len(first):
                raise UserError(f"{self.file}:{number}: {self._unequal(cells, len(first))}")
            yield cells[source], cells[target]

    def _unequal(self, cells: Sequence[str], expected: int) -> str:
        """Return the error text for a row with another number of cells than the first."""
        row = "the header" if self.columns is not None else "the first row"
        problem = f"{counted(len(cells), 'column')}, but {row} has {expected}"
        if not any(cells):
            return f"{problem}; remove the empty line"
        if _ending(self.file) != TAB_SEPARATED:
            return f"{problem}; put quotes around a text that contains the delimiter"
        if any(cell.startswith('"') and (cell.count('"') % 2 or cell == '"') for cell in cells):
            return f"{problem}; if the text is quoted, give the file a header and a name that ends in .csv"
        fix = "remove the tab inside a text" if len(cells) > expected else "add the missing text and its tab"
        return f"{problem}; {fix}, or remove the row"

    def _column_indices(self, first: list[str]) -> tuple[int, int]:
        """Return the indices of the source and the target column."""
        if self.columns is None:
            if len(first) < 2:
                raise UserError(f"{self.file}:1: 1 column; at least 2 are needed, separated by tabs")
            return 0, 1
        header = [name.strip() for name in first]
        for column in self.columns:
            if column not in header:
                raise UserError(f"{self.file}: {_no_column(column, header)}")
            if (times := header.count(column)) > 1:
                raise UserError(f"{self.file}:1: {times} columns are called {column}; rename the others")
        return header.index(self.columns[0]), header.index(self.columns[1])

    def _tab_separated_rows(self) -> Iterator[tuple[int, list[str]]]:
        all_quoted = True
        for number, line in enumerate(require_newlines(read_lines(self.file), self.file), start=1):
            cells = line.split("\t")
            if '"' in line or all_quoted:
                all_quoted = all_quoted and all(_is_quoted(cell) for cell in cells)
                doubled = '""' in line and any(_is_quoted(cell) and _has_doubled_quotes(cell) for cell in cells)
                if doubled or (all_quoted and number == QUOTED_ROWS):
                    fix = "give the file a header and a name that ends in .csv, or remove the quotes"
                    raise UserError(f"{self.file}:{number}: quoted as in CSV, but .tsv is read as it is; {fix}")
            yield number, cells

    def _csv_rows(self) -> Iterator[tuple[int, list[str]]]:
        assert self.columns is not None
        lines = (f"{line}\n" for line in require_newlines(read_lines(self.file), self.file))
        header = next(lines)
        if "\r" in header:  # the other line ends may be in quoted texts
            raise UserError(cr_problem(self.file))
        if header.startswith("sep="):
            raise UserError(f"{self.file}:1: {header.strip()}: a line for Excel before the header; remove it")
        names = {delimiter: _csv_header(header, delimiter) for delimiter in DELIMITERS}
        fitting = [delimiter for delimiter in DELIMITERS if set(self.columns) <= set(names[delimiter])]
        delimiter = fitting[0] if fitting else max(DELIMITERS, key=lambda delimiter: len(names[delimiter]))
        spaced = f"{delimiter} " in header  # such as "a", "b": quotes behind a space would be part of the text
        reader = csv.reader(chain([header], lines), delimiter=delimiter, strict=True, skipinitialspace=spaced)
        number = 1
        try:
            for cells in reader:
                yield number, cells
                number = reader.line_num + 1
        except csv.Error as error:
            fix = 'quote a text as "…", with each " inside it doubled'
            raise UserError(f"{self.file}:{number}: not CSV ({error}); {fix}") from None

    def _json_lines(self) -> Iterator[Mapping[str, Any]]:
        keys = [json.dumps(column, ensure_ascii=False) for column in self.columns or ()]
        for number, line in enumerate(read_lines(self.file), start=1):
            suspicious = any(line.count(key) > 1 for key in keys)
            try:
                row = json.loads(line, object_pairs_hook=_unique_keys if suspicious else None)
            except _RepeatedKey as error:
                raise UserError(f"{self.file}:{number}: {error}; keep one of them") from None
            except (ValueError, RecursionError):
                row = None
            if not isinstance(row, dict):
                raise UserError(f"{self.file}:{number}: not a JSON object; write one per line")
            yield row

    def _parquet(self) -> Iterator[Mapping[str, Any]]:
        import pyarrow as pa
        from pyarrow.parquet import ParquetFile

        done = 0
        try:
            with open(self.file, "rb") as file, ParquetFile(file) as table:
                for batch in table.iter_batches(ROWS_PER_READ, columns=self._stored_columns(table.schema)):
                    yield from batch.to_pylist()
                    done += len(batch)
        except UnicodeDecodeError:
            raise UserError(f"{self.file}: a text after row {done} is not UTF-8; write the table again") from None
        except (pa.ArrowException, OSError) as error:
            raise UserError(f"{self.file}: not a Parquet file ({reason(error)}); get a new copy of it") from None

    def _stored_columns(self, schema: Any) -> list[str]:
        """Return the paths of the columns to read, which may be nested in ``translation``.

        Other columns may be damaged, or of types that pyarrow cannot read.
        """
        assert self.columns is not None
        paths = [schema.column(index).path for index in range(len(schema.names))]
        tops = list(dict.fromkeys(path.partition(".")[0] for path in paths))
        stored = []
        for column in self.columns:
            nested = f"{NESTED}.{column}"
            match = [
                name for name in (nested, column) if any(path == name or path.startswith(f"{name}.") for path in paths)
            ]
            if not match:
                inside = [path.split(".")[1] for path in paths if path.startswith(f"{NESTED}.")]
                raise UserError(f"{self.file}: {_no_column(column, inside or tops)}")
            if paths.count(match[0]) > 1:
                raise UserError(f"{self.file}: {paths.count(match[0])} columns are called {column}; rename the others")
            stored.append(match[0])
        return stored


def _ending(file: Path) -> str:
    """Return the ending that says the format of a table. Parquet, unlike text, is not read compressed."""
    ending = format_ending(file.name)
    return ending if ending != PARQUET else file.suffix.lower()


class _RepeatedKey(Exception):
    pass


def _unique_keys(items: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object. Raises _RepeatedKey, because readers differ in the value that they take."""
    names = [name for name, _ in items]
    if len({*names}) != len(names):
        raise _RepeatedKey(f"key {max(names, key=names.count)} occurs more than once")
    return dict(items)


def _no_column(column: str, names: Sequence[str]) -> str:
    return f"no column {column}{suggestion(column, names)}; choose from {', '.join(names)}"[:500]


def _csv_header(line: str, delimiter: str) -> list[str]:
    return [name.strip() for name in next(csv.reader([line], delimiter=delimiter, skipinitialspace=True))]


def _is_quoted(cell: str) -> bool:
    return len(cell) > 1 and cell.startswith('"') and cell.endswith('"')


def _has_doubled_quotes(cell: str) -> bool:
    """Return whether all quotes inside a quoted cell are doubled, as CSV writes them and text hardly ever has them."""
    return '""' in cell[1:-1] and '"' not in cell[1:-1].replace('""', "")
