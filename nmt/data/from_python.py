"""Sentence pairs that a program gives to ``nmt.train``: tuples, or rows such as those of a Hugging Face ``Dataset``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

from nmt.errors import UserError
from nmt.settings.arguments import brief

NESTED = "translation"  # Hugging Face's name of the column that holds {language: text}


def from_python(*, columns: tuple[str, str] | None = None) -> NoReturn:
    """Raise UserError: ``data=python`` only records that a program gave the pairs to ``nmt.train``."""
    raise UserError(
        "data=python: the text of such a run is in its program, which gives train= and valid= to nmt.train; "
        "to use the text of a finished run, set data=prepared data.folder=RUN/data"
    )


def rows_as_pairs(rows: Any, part: str, columns: Sequence[str] | None) -> Iterator[Any]:
    """Yield (source, target) for each row that is a mapping, and every other row as it is.

    ``columns`` are the names of source and target, in the row or in its column ``translation``. The first row must have
    both; a later one without a name has no text there. Raises UserError for anything that does not consist of rows.
    """
    if isinstance(rows, str | bytes | Mapping) or not isinstance(rows, Iterable):
        raise UserError(f"{part}={brief(rows)}: must be sentence pairs: (source, target) tuples, or rows with columns=")
    for number, row in enumerate(rows, start=1):
        if isinstance(row, Mapping):
            nested = row.get(NESTED)
            texts = nested if isinstance(nested, Mapping) else row
            if columns is None or (number == 1 and not {*columns} <= {*texts}):
                has = f"has the columns {', '.join(map(str, texts))}"
                raise UserError(
                    f"data: pair {number} of part {part} {has:.400}; set columns= to those of source and target"
                )
            row = tuple(map(texts.get, columns))
        yield row


def column_problem(columns: Sequence[str] | None) -> str | None:
    """Return the problem if both names are the same, or None."""
    if columns is None or len(columns) != 2 or columns[0] != columns[1]:
        return None
    return f"data.columns=[{','.join(columns)}]: source and target are the same column; name two"
