"""Records of a comparison, one measured value each, and the columns of its tables, which select from them."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, NamedTuple

from nmt.files.atomic import write_lines


class Record(NamedTuple):
    """A value of a model: of one run, or of one round of timing, which has an ``engine``.

    ``lengths`` is the range of source lengths in pieces if the value belongs to a part of the test set.
    """

    model: str
    run: str
    metric: str
    value: float
    engine: str = ""
    beam: int | None = None
    lengths: str = ""


def select(
    records: Iterable[Record], model: str, metric: str, *, engine: str = "", beam: int | None = None, lengths: str = ""
) -> list[float]:
    """Return the values of a model, in the order of the records."""
    wanted = (model, metric, engine, beam, lengths)
    return [r.value for r in records if (r.model, r.metric, r.engine, r.beam, r.lengths) == wanted]


class Column(NamedTuple):
    """A column of a table: its heading, the format of its numbers, and the records that it selects.

    An ``exact`` column holds sizes or budgets; it shows a deviation only if it is not 0.
    """

    heading: str
    form: str
    metric: str
    engine: str = ""
    beam: int | None = None
    exact: bool = False

    def values(self, records: Iterable[Record], model: str) -> list[float]:
        """Return the values of a model, in the order of the records."""
        return select(records, model, self.metric, engine=self.engine, beam=self.beam)

    def texts(self, values: Sequence[float]) -> tuple[str, str]:
        """Return the mean ("–" without values) and " ± deviation" (or "")."""
        mean, deviation = mean_and_deviation(values)
        hidden = deviation is None or (self.exact and deviation == 0)
        return "–" if mean is None else f"{mean:{self.form}}", "" if hidden else f" ± {deviation:{self.form}}"


SIZES = (
    Column("parameters", ",.0f", "parameters", exact=True),
    Column("updates", ",.0f", "updates", exact=True),
    Column("training tokens/s", ",.0f", "train_tokens_per_s"),
    Column("training seconds", ",.0f", "train_seconds"),
)
SCORES = (
    Column("BLEU", ".2f", "bleu"),
    Column("chrF", ".2f", "chrf"),
    Column("AER", ".3f", "aer"),
    Column("alignment entropy", ".2f", "entropy"),
    Column("repetition", ".2%", "repetition"),
    Column("length ratio", ".3f", "length_ratio"),
)


def speed_columns(engine: str, beams: Sequence[int]) -> list[Column]:
    """Return the columns of an engine: sentences per second for each beam size, and RAM."""
    speed = [
        Column(f"{engine}, beam {beam}: sentences/s", ",.1f", "sentences_per_s", engine=engine, beam=beam)
        for beam in beams
    ]
    return [*speed, Column(f"{engine}: peak RAM, MB", ",.0f", "memory_mb", engine)]


def mean_and_deviation(values: Sequence[float]) -> tuple[float | None, float | None]:
    """Return the mean and the sample standard deviation (n - 1), None where they are undefined."""
    return fmean(values) if values else None, stdev(values) if len(values) > 1 else None


def write_records(path: Path, records: Sequence[Record]) -> None:
    """Write the records as a CSV file, one line each."""
    save_csv(path, [Record._fields, *(["" if cell is None else cell for cell in record] for record in records)])


def save_csv(path: Path, rows: Iterable[Sequence[Any]]) -> None:
    """Write the rows of a table as a CSV file, atomically."""
    table = io.StringIO()
    csv.writer(table, lineterminator="\n").writerows(rows)
    write_lines(path, table.getvalue().split("\n")[:-1])  # splitlines would also split at U+2028 in a cell
