"""The report as one HTML page that needs no other file and no script; its tables also as Markdown and LaTeX."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from nmt.alignment.page import escape, escape_markdown, html_page
from nmt.comparison.measures import Column, Difference, all_better, mean_and_deviation
from nmt.comparison.results import TESTED, Row

STYLE = """
:root { color-scheme: light; --ink: #1c2733; --paper: #fff; --rule: #d9d5cb; --mark: #eaf1f8 }
body { max-width: 84rem }
h1 { margin-bottom: .3rem } h2 { font-size: 1.15rem; margin: 2.2rem 0 .5rem }
h3 { font-size: 1rem; font-weight: 600; margin: 1.6rem 0 .3rem }
p { margin: .4rem 0; max-width: 60rem; overflow-wrap: anywhere }
.scroll { overflow-x: auto } table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .88rem }
th, td { text-align: right; padding: .3rem .5rem; border-bottom: 1px solid var(--rule); white-space: nowrap }
th { font-weight: 600; vertical-align: bottom } thead th { white-space: normal }
td.test { white-space: normal; min-width: 6rem } tbody th { vertical-align: middle }
th:first-child { text-align: left; position: sticky; left: 0; background: var(--paper) }
tr.baseline th, tr.baseline td { background: var(--mark) } .sd { opacity: .65 } .best { font-weight: 700 }
figure { margin: .8rem 0 } figure img { max-width: none; height: auto } figcaption { font-size: .9rem }
@media (min-width: 70rem) { figure img { max-width: 100% } }
dl { max-width: 60rem } dt { font-weight: 600; margin-top: .5rem }
dd { margin: 0; overflow-wrap: anywhere } small, code { font-size: .85rem }
"""
LATEX = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    **{"[": "{[}", "*": "{*}"},  # after the end of a row, these are arguments of it
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
    """A table of the report. The first cell of each row is the label of its model."""

    heading: str
    columns: list[str]
    rows: list[list[Cell]]
    baseline: str


class Picture(NamedTuple):
    """A PNG file of the page, and the text below it, which also describes it."""

    file: Path
    caption: str


class Subheading(NamedTuple):
    """A heading within a section."""

    text: str


SectionPart = str | Table | Picture | Subheading | list[tuple[str, str]]
"""A part of a section: a paragraph, a table, a picture, a heading, or a list of names and texts. No text is HTML."""


def comparison_page(title: str, sections: Sequence[tuple[str, Sequence[SectionPart]]]) -> str:
    """Return the page as HTML text. Each section has a heading ("" for none). Pictures are embedded."""
    lines = [f"<h1>{escape(title)}</h1>"]
    for heading, parts in sections:
        lines += [f"<h2>{escape(heading)}</h2>"] if heading else []
        lines += map(_html, parts)
    return html_page(title, STYLE, "\n".join(lines))


def _html(part: SectionPart) -> str:
    if isinstance(part, Table):
        return _html_table(part)
    if isinstance(part, Picture):
        data = base64.b64encode(part.file.read_bytes()).decode("ascii")
        caption = escape(part.caption)
        image = f'<img src="data:image/png;base64,{data}" alt="{caption}">'
        return f'<figure><div class="scroll">{image}</div><figcaption>{caption}</figcaption></figure>'
    if isinstance(part, Subheading):
        return f"<h3>{escape(part.text)}</h3>"
    if isinstance(part, list):
        return f"<dl>{''.join(f'<dt>{escape(name)}</dt><dd>{escape(text)}</dd>' for name, text in part)}</dl>"
    lines = "<br>".join(map(escape, part.split("\n")))
    return f"<p>{lines}</p>"


def _html_table(table: Table) -> str:
    head = "".join(f'<th scope="col">{escape(text)}</th>' for text in table.columns)
    lines = []
    for label, *cells in table.rows:
        kind = ' class="baseline"' if label.text == table.baseline else ""
        lines.append(f'<tr{kind}><th scope="row">{escape(label.text)}</th>{"".join(map(_html_cell, cells))}</tr>')
    body = "\n".join(lines)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table></div>'


def _html_cell(cell: Cell) -> str:
    text = escape(cell.text) + (f'<span class="sd">{escape(cell.spread)}</span>' if cell.spread else "")
    text = f'<span class="best">{text}</span>' if cell.best else text
    return f'<td class="test">{text}</td>' if cell.test else f"<td>{text}</td>"


def table_of(
    heading: str,
    rows: Sequence[Row],
    columns: Sequence[Column],
    *,
    baseline: str,
    best: Mapping[str, str] | None = None,
) -> Table:
    """Return the table of the ``columns`` that have values.

    ``best`` is the best model of each metric. With it, metrics get a column for their tests.
    """
    headings = ["model", "n"]
    lines = [[Cell(row.label), Cell(str(len(row.runs)))] for row in rows]
    for column in columns:
        if not any(row.values.get(column.key) for row in rows):
            continue
        tested = best is not None and column.key in TESTED
        headings += [column.heading, f"{column.heading} vs baseline (p)"][: 1 + tested]
        for row, cells in zip(rows, lines, strict=True):
            marked = best is not None and best.get(column.key) == row.label
            cells.append(Cell(*column.texts(row.values.get(column.key, [])), best=marked))
            cells += [Cell(_test(row.tests.get(column.key, [])), test=True)] if tested else []
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
