"""The tables of the report, and the same as Markdown and LaTeX."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from nmt.comparison.measures import Column, mean_and_deviation
from nmt.comparison.results import TESTED, Row
from nmt.comparison.significance import Difference, all_better

MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|&~!])")
LATEX = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"},
    **{"±": r"$\pm$", "–": "--", "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", '"': "''"},
}
SIGNED = re.compile(r"^([+-]?\d[\d.,]*)")


class Cell(NamedTuple):
    """A number, its deviation, whether it is significantly the best, and whether it is the result of a test."""

    text: str
    spread: str = ""
    best: bool = False
    test: bool = False


class Table(NamedTuple):
    """Headings of the columns, and the label and cells of each row."""

    heading: str
    columns: list[str]
    rows: list[tuple[str, list[Cell]]]
    baseline: str


def table_of(
    heading: str,
    rows: Sequence[Row],
    columns: Sequence[Column],
    *,
    baseline: str,
    best: Mapping[str, str] | None = None,
) -> Table:
    """Return the table of the ``columns`` that have values. With the ``best`` models by metric come the tests."""
    shown = [column for column in columns if any(row.values.get(column.key) for row in rows)]
    headings = ["model", "n"]
    for column in shown:
        headings.append(column.heading)
        if best is not None and column.key in TESTED:
            headings.append(f"{column.heading} vs baseline (p)")
    lines = []
    for row in rows:
        cells = [Cell(str(len(row.runs)))]
        for column in shown:
            marked = best is not None and best.get(column.key) == row.label
            cells.append(Cell(*column.texts(row.values.get(column.key, [])), best=marked))
            if best is not None and column.key in TESTED:
                cells.append(Cell(_test(row.tests.get(column.key, [])), test=True))
        lines.append((row.label, cells))
    return Table(heading, headings, lines, baseline)


def _test(tests: Sequence[Difference]) -> str:
    """Return the mean difference from the baseline and the p-value of each run.

    A * follows if all runs differ significantly and in the same direction.
    """
    if not tests:
        return "baseline"
    delta, _ = mean_and_deviation([test.delta for test in tests])
    worse = [Difference(-test.delta, test.p) for test in tests]
    star = "*" if all_better(tests) or all_better(worse) else ""
    return f"{delta:+.2f}{star} ({', '.join(f'{test.p:.3f}' for test in tests)})"


def markdown(tables: Sequence[Table]) -> list[str]:
    """Return the lines of the tables in Markdown."""
    lines = []
    for table in tables:
        lines += [f"## {_markdown(table.heading)}", "", _line(map(_markdown, table.columns))]
        lines.append(_line(["---", *["---:"] * (len(table.columns) - 1)]))
        for label, cells in table.rows:
            texts = [_markdown(cell.text + cell.spread) for cell in cells]
            marked = [f"**{text}**" if cell.best else text for text, cell in zip(texts, cells, strict=True)]
            lines.append(_line([_markdown(label), *marked]))
        lines.append("")
    return lines


def _line(cells: Sequence[str] | map[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _markdown(text: str) -> str:
    return MARKDOWN.sub(r"\\\1", _flat(text))


def latex(tables: Sequence[Table], title: str) -> list[str]:
    """Return the lines of the tables in LaTeX, with the rules of the package booktabs."""
    lines = ["% \\usepackage{booktabs}"]
    for table in tables:
        lines += [r"\begin{table}", r"\centering", rf"\caption{{{_latex(title)}: {_latex(table.heading)}}}"]
        lines += [rf"\begin{{tabular}}{{l{'r' * (len(table.columns) - 1)}}}", r"\toprule"]
        lines += [" & ".join(map(_latex, table.columns)) + r" \\", r"\midrule"]
        for label, cells in table.rows:
            lines.append(" & ".join([_latex(label), *map(_latex_cell, cells)]) + r" \\")
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
