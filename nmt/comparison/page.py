"""The report as one HTML page that needs no other file and no script."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from nmt.alignment.page import escape, html_page
from nmt.comparison.tables import Cell, Table

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
dl { max-width: 60rem } dt { font-weight: 600; margin-top: .5rem } dd { margin: 0 } small, code { font-size: .85rem }
"""
COLOURS = (
    "References, force-decoded: target down, source across. Alignments show the share of each source word by absolute "
    "value; darker is larger. In α and β with negative weights, blue is positive and red negative. The bars show the "
    "scales. Orange outlines are gold links."
)


class Picture(NamedTuple):
    """A PNG file of the page, and the text below it, which also describes it."""

    file: Path
    caption: str


class Sentence(NamedTuple):
    """A sentence pair whose alignments are drawn."""

    source: str
    reference: str
    pictures: list[Picture]


class Page(NamedTuple):
    """Content of the page. ``facts`` and ``notes`` are (name, text); all text is plain, not HTML."""

    title: str
    summary: list[str]
    tables: list[Table]
    pictures: list[tuple[str, list[Picture]]]
    sentences: list[Sentence]
    notes: list[tuple[str, str]]
    facts: list[tuple[str, str]]


def comparison_page(page: Page) -> str:
    """Return the page as HTML text. Pictures are embedded."""
    parts = [f"<h1>{escape(page.title)}</h1>", *(f"<p>{escape(line)}</p>" for line in page.summary)]
    for table in page.tables:
        parts += [f"<h2>{escape(table.heading)}</h2>", _table(table)]
    for heading, pictures in page.pictures:
        parts += [f"<h2>{escape(heading)}</h2>", *map(_figure, pictures)]
    if page.sentences:
        parts.append("<h2>Alignments of the same sentences</h2>")
        parts.append(f"<p>{COLOURS}</p>")
    for number, sentence in enumerate(page.sentences, start=1):
        parts += [f"<h3>Sentence {number}</h3><p>{escape(sentence.source)}<br>{escape(sentence.reference)}</p>"]
        parts += map(_figure, sentence.pictures)
    parts += ["<h2>How it was measured</h2>", _list(page.notes), "<h2>Conditions</h2>", _list(page.facts)]
    return html_page(page.title, STYLE, "\n".join(parts))


def _table(table: Table) -> str:
    head = "".join(f'<th scope="col">{escape(text)}</th>' for text in table.columns)
    lines = []
    for label, cells in table.rows:
        kind = ' class="baseline"' if label == table.baseline else ""
        lines.append(f'<tr{kind}><th scope="row">{escape(label)}</th>{"".join(map(_cell, cells))}</tr>')
    body = "\n".join(lines)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table></div>'


def _cell(cell: Cell) -> str:
    text = escape(cell.text) + (f'<span class="sd">{escape(cell.spread)}</span>' if cell.spread else "")
    text = f'<span class="best">{text}</span>' if cell.best else text
    return f'<td class="test">{text}</td>' if cell.test else f"<td>{text}</td>"


def _figure(picture: Picture) -> str:
    data = base64.b64encode(picture.file.read_bytes()).decode("ascii")
    image = f'<img src="data:image/png;base64,{data}" alt="{escape(picture.caption)}">'
    return f'<figure><div class="scroll">{image}</div><figcaption>{escape(picture.caption)}</figcaption></figure>'


def _list(items: Sequence[tuple[str, str]]) -> str:
    return f"<dl>{''.join(f'<dt>{escape(name)}</dt><dd>{escape(text)}</dd>' for name, text in items)}</dl>"
