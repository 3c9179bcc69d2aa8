"""Sentence pairs that a program gives to ``nmt.train``: tuples, or rows such as those of a Hugging Face ``Dataset``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

from nmt.errors import UserError

NESTED = "translation"  # Hugging Face's name of the column that holds {language: text}


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
        raise UserError(f"{part}={rows!r:.80}: must be sentence pairs: (source, target) tuples, or rows with columns=")
    for number, row in enumerate(rows, start=1):
        if isinstance(row, Mapping):
            row = _from_columns(row, f"data: pair {number} of part {part}", columns)
        yield row


def _from_columns(row: Mapping[str, Any], place: str, columns: Sequence[str] | None) -> tuple[Any, Any]:
    nested = row.get(NESTED)
    texts = nested if isinstance(nested, Mapping) else row
    names = ", ".join(map(str, texts))
    if columns is None:
        raise UserError(f"{place} has the columns {names}; name source and target, such as columns=('en', 'de')")
    source, target = columns
    for column in columns:
        if column not in texts:
            raise UserError(f"{place} has no column {column}; choose from {names}")
        if not isinstance(texts[column], str):
            raise UserError(f"{place}: column {column} is {texts[column]!r:.80}; must be text")
    return texts[source], texts[target]
