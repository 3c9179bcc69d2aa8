"""Tables of a comparison, made from its records, as Markdown, LaTeX and HTML."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from nmt.alignment.page import escape, escape_markdown
from nmt.comparison.measures import Difference, all_better
from nmt.comparison.models import Model
from nmt.comparison.quality import Differences
from nmt.comparison.records import Column, Record, mean_and_deviation

LATEX = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    **{"[": "{[}", "*": "{*}"},  # after the end of a row, these are arguments of it
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"},
    **{"±": r"$\pm$", "–": "--", "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", '"': "''"},
}
SIGNED = re.compile(r"^([+-]?\d[\d.,]*)")


class Cell(NamedTuple):
    """A number, its deviation, and whether it is significantly the best."""

    text: str
    spread: str = ""
    best: bool = False


class Table(NamedTuple):
    """A table of the report. The first cell of each row is the label of its model."""

    heading: str
    columns: list[str]
    rows: list[list[Cell]]


def pivot(
    heading: str,
    models: Sequence[Model],
    records: Sequence[Record],
    columns: Sequence[Column],
    *,
    tests: Mapping[str, Differences] | None = None,
    best: Mapping[str, str] | None = None,
) -> Table:
    """Return the table of the ``columns`` that have values, with one row per model.

    ``tests`` are the differences of each model from the baseline, which has none; their metrics get a second column.
    ``best`` is the best model of each metric.
    """
    headings = ["model", "n"]
    rows = [[Cell(model.label), Cell(str(len(model.runs)))] for model in models]
    for column in columns:
        values = [column.values(records, model.label) for model in models]
        if not any(values):
            continue
        tested = tests is not None and any(column.metric in metrics for metrics in tests.values())
        headings += [column.heading, f"{column.heading} vs baseline (p)"][: 1 + tested]
        for model, row, numbers in zip(models, rows, values, strict=True):
            row.append(Cell(*column.texts(numbers), best=(best or {}).get(column.metric) == model.label))
            if tested and tests is not None:
                row.append(Cell(_test(tests.get(model.label, {}).get(column.metric, []))))
    return Table(heading, headings, rows)


def _test(differences: Sequence[Difference]) -> str:
    """Return the mean difference from the baseline and the p-value of each run.

    A * follows if all runs differ significantly and in the same direction.
    """
    if not differences:
        return "baseline"
    delta, _ = mean_and_deviation([test.delta for test in differences])
    worse = [Difference(-test.delta, test.p) for test in differences]
    star = "*" if all_better(differences) or all_better(worse) else ""
    return f"{delta:+.2f}{star} ({', '.join(f'{test.p:.3f}' for test in differences)})"


def html_table(table: Table) -> str:
    """Return the table as HTML."""
    head = "".join(f'<th scope="col">{escape(text)}</th>' for text in table.columns)
    rows = [
        f'<tr><th scope="row">{escape(label.text)}</th>{"".join(map(_html_cell, cells))}</tr>'
        for label, *cells in table.rows
    ]
    body = "\n".join(rows)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table></div>'


def _html_cell(cell: Cell) -> str:
    text = escape(cell.text) + (f'<span class="sd">{escape(cell.spread)}</span>' if cell.spread else "")
    return f"<td>{f'<b>{text}</b>' if cell.best else text}</td>"


def markdown(tables: Sequence[Table], title: str) -> list[str]:
    """Return the title and the lines of the tables in Markdown."""
    lines = [f"# {_markdown(Cell(title))}", ""]
    for table in tables:
        rule = ["---", *["---:"] * (len(table.columns) - 1)]
        rows = [[*map(_markdown, map(Cell, table.columns))], rule, *([*map(_markdown, cells)] for cells in table.rows)]
        lines += [f"## {_markdown(Cell(table.heading))}", "", *(f"| {' | '.join(row)} |" for row in rows), ""]
    return lines


def _markdown(cell: Cell) -> str:
    text = escape_markdown(_flat(cell.text + cell.spread))
    return f"**{text}**" if cell.best else text


def latex(tables: Sequence[Table], title: str) -> list[str]:
    """Return the lines of the tables in LaTeX, with the rules of the package booktabs."""
    lines = ["% \\usepackage{booktabs}"]
    for table in tables:
        lines += [r"\begin{table}", r"\centering", rf"\caption{{{_latex(title)}: {_latex(table.heading)}}}"]
        lines += [rf"\begin{{tabular}}{{l{'r' * (len(table.columns) - 1)}}}", r"\toprule"]
        lines += [" & ".join(map(_latex, table.columns)) + r" \\", r"\midrule"]
        lines += [" & ".join(map(_latex_cell, cells)) + r" \\" for cells in table.rows]
        lines += [r"\bottomrule", r"\end{tabular}", r"\end{table}", ""]
    return lines


def _latex_cell(cell: Cell) -> str:
    text = _latex(cell.text + cell.spread)
    text = SIGNED.sub(r"$\1$", text) if text[:1] in "+-" else text  # a minus sign, not a hyphen
    return rf"\textbf{{{text}}}" if cell.best else text


def _latex(text: str) -> str:
    return "".join(LATEX.get(character, character) for character in _flat(text))


def _flat(text: str) -> str:
    """Return the text on one line, without characters that are not printed."""
    return "".join(character for character in " ".join(text.split()) if character.isprintable())
