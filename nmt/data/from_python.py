"""Sentence pairs that a program gives to ``nmt.train``: tuples, or rows such as those of a Hugging Face ``Dataset``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

from nmt.errors import UserError
from nmt.settings.arguments import brief, is_missing, suggestion

NESTED = "translation"  # Hugging Face's name of the column that holds {language: text}
SOME_ROWS = 1000  # rows without text may leave out the key; a column that none of the first rows has is another one


def from_python(*, columns: tuple[str, str] | None = None) -> NoReturn:
    """Raise UserError: ``data=python`` only records that a program gave the pairs to ``nmt.train``."""
    raise UserError(
        "data=python: the text of such a run is in its program, which gives train= and valid= to nmt.train; "
        "to use the text of a finished run, set data=prepared data.folder=RUN/data"
    )


def rows_as_pairs(rows: Any, part: str, columns: Sequence[str] | None) -> Iterator[Any]:
    """Yield (source, target) for each row that is a mapping, and every other row as it is.

    ``columns`` are the names of source and target, in the row or in its column ``translation``. Raises UserError for
    rows without them, and for anything that does not consist of rows.
    """
    if isinstance(rows, str | bytes | Mapping) or not isinstance(rows, Iterable):
        raise UserError(f"{part}={brief(rows)}: must be sentence pairs: (source, target) tuples, or rows with columns=")
    without_text = list(columns or ())
    first: Mapping[str, Any] = {}
    for number, row in enumerate(rows, start=1):
        if isinstance(row, Mapping):
            nested = row.get(NESTED)
            texts = nested if isinstance(nested, Mapping) else row
            first = first or texts
            if without_text:
                without_text = [column for column in without_text if not isinstance(texts.get(column), str)]
                if number == SOME_ROWS and not {*without_text} <= texts.keys():
                    break
            row = _from_columns(texts, f"data: pair {number} of part {part}", columns)
        yield row
    if without_text and first:
        names = [str(name) for name in first if name != without_text[0]]
        advice = f"{suggestion(without_text[0], names)}; choose from {', '.join(names)}"
        raise UserError(f"data: part {part} has no text in column {without_text[0]}{advice}"[:500])


def column_problem(columns: Sequence[str] | None) -> str | None:
    """Return the problem if both names are the same, or None."""
    if columns is None or len(columns) != 2 or columns[0] != columns[1]:
        return None
    return f"data.columns=[{','.join(columns)}]: source and target are the same column; name two"


def _from_columns(texts: Mapping[str, Any], name: str, columns: Sequence[str] | None) -> tuple[Any, Any]:
    """Return the values of both columns; a missing key has the value None."""
    if columns is None:
        names = ", ".join(map(str, texts))
        raise UserError(f"{name} has the columns {names}; name source and target, such as columns=('en', 'de')")
    source = texts.get(columns[0])
    target = texts.get(columns[1])
    if isinstance(source, str) and isinstance(target, str):
        return source, target
    for column, value in zip(columns, (source, target), strict=True):
        if not isinstance(value, str) and not is_missing(value):
            raise UserError(f"{name}: column {column} is {brief(value)}; must be text")
    return source, target
