"""Records of a comparison, one measured value each, and the tables that are made from them."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, NamedTuple

from nmt.alignment.page import escape, escape_markdown
from nmt.files.atomic import write_lines

LATEX = str.maketrans(
    {
        **{character: f"\\{character}" for character in "&%$#_{}"},
        **{"[": "{[}", "*": "{*}"},  # after the end of a row, these are arguments of it
        **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"},
        **{"±": r"$\pm$", "–": "--", "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", '"': "''"},
    }
)


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
    records: Iterable[Record], model: str, metric: str, engine: str = "", beam: int | None = None, lengths: str = ""
) -> list[float]:
    """Return the values of a model, in the order of the records."""
    wanted = (model, metric, engine, beam, lengths)
    return [r.value for r in records if (r.model, r.metric, r.engine, r.beam, r.lengths) == wanted]


class Column(NamedTuple):
    """A column of a table: its heading, the format of its numbers, and the records that it selects."""

    heading: str
    form: str
    metric: str
    engine: str = ""
    beam: int | None = None

    def text(self, values: Sequence[float]) -> str:
        """Return the mean and its deviation, "–" without values. A deviation of 0 is not shown."""
        mean, deviation = mean_and_deviation(values)
        return "–" if mean is None else f"{mean:{self.form}}" + (f" ± {deviation:{self.form}}" if deviation else "")


SIZES = (
    Column("parameters", ",.0f", "parameters"),
    Column("updates", ",.0f", "updates"),
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
        Column(f"{engine}, beam {beam}: sentences/s", ",.1f", "sentences_per_s", engine, beam=beam) for beam in beams
    ]
    return [*speed, Column(f"{engine}: peak RAM, MB", ",.0f", "memory_mb", engine)]


class Table(NamedTuple):
    """A table of the report. The first cell of each row is the label of its model."""

    heading: str
    columns: list[str]
    rows: list[list[str]]


def pivot(
    heading: str,
    runs: Mapping[str, int],
    records: Sequence[Record],
    columns: Sequence[Column],
    tests: Mapping[str, Mapping[str, str]] | None = None,
) -> Table:
    """Return the table of the ``columns`` that have values, with one row per model.

    ``runs`` is the number of runs of each model. ``tests`` are the differences of each model from the baseline by
    metric; their metrics get a second column.
    """
    cells = {"model": [*runs], "n": [*map(str, runs.values())]}
    for column in columns:
        values = [select(records, label, *column[2:]) for label in runs]
        if any(values):
            cells[column.heading] = [*map(column.text, values)]
            if tests and any(column.metric in texts for texts in tests.values()):
                texts = [tests.get(label, {}).get(column.metric, "baseline") for label in runs]
                cells[f"{column.heading} vs baseline (p)"] = texts
    return Table(heading, [*cells], [[*row] for row in zip(*cells.values(), strict=True)])


def html_table(table: Table) -> str:
    """Return the table as HTML."""
    head = "".join(f'<th scope="col">{escape(text)}</th>' for text in table.columns)
    rows = "\n".join(
        f'<tr><th scope="row">{escape(label)}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in cells)}</tr>'
        for label, *cells in table.rows
    )
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>\n{rows}\n</tbody></table></div>'


def markdown(tables: Sequence[Table], title: str) -> list[str]:
    """Return the title and the lines of the tables in Markdown."""
    lines = [f"# {escape_markdown(title)}", ""]
    for table in tables:
        rule = ["---", *["---:"] * (len(table.columns) - 1)]
        rows = [[*map(escape_markdown, row)] for row in (table.columns, *table.rows)]
        rows.insert(1, rule)
        lines += [f"## {escape_markdown(table.heading)}", "", *(f"| {' | '.join(row)} |" for row in rows), ""]
    return lines


def latex(tables: Sequence[Table], title: str) -> list[str]:
    """Return the lines of the tables in LaTeX, with the rules of the package booktabs."""
    lines = [r"% \usepackage{booktabs}"]
    for table in tables:
        head, *rows = (" & ".join(map(_latex, row)) + r" \\" for row in (table.columns, *table.rows))
        lines += [r"\begin{table}", r"\centering", rf"\caption{{{_latex(f'{title}: {table.heading}')}}}"]
        lines += [rf"\begin{{tabular}}{{l{'r' * (len(table.columns) - 1)}}}", r"\toprule", head, r"\midrule"]
        lines += [*rows, r"\bottomrule", r"\end{tabular}", r"\end{table}", ""]
    return lines


def _latex(text: str) -> str:
    sign = "$-$" if text.startswith("-") else ""  # a minus sign, not a hyphen
    return sign + text.removeprefix("-").translate(LATEX)


def mean_and_deviation(values: Sequence[float]) -> tuple[float | None, float | None]:
    """Return the mean and the sample standard deviation (n - 1), None where they are undefined."""
    return fmean(values) if values else None, stdev(values) if len(values) > 1 else None


def save_csv(path: Path, rows: Iterable[Sequence[Any]]) -> None:
    """Write the rows of a table as a CSV file, atomically. None is an empty cell."""
    table = io.StringIO()
    csv.writer(table, lineterminator="\n").writerows(rows)
    write_lines(path, table.getvalue().split("\n")[:-1])  # splitlines would also split at U+2028 in a cell
