"""Self-contained HTML pages, and the page of alignments: pointing at a word highlights its partners."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from nmt.alignment.figures import UNIT, Scale, scale_of, short_label, xml_safe
from nmt.data.invisible import remove_invisible
from nmt.data.links import Link

PAGE_STYLE = """
:root { color-scheme: light dark; --ink: #1c2733; --paper: #fbfaf7; --rule: #d9d5cb }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e3da; --paper: #15191e; --rule: #39414a } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.5rem } h2 { border-top: 1px solid var(--rule); padding-top: 1rem }
"""
STYLE = """
body { max-width: 76rem } h2 { font-size: 1rem; margin: 2.5rem 0 .5rem }
p.words { margin: .2rem 0; overflow-wrap: anywhere } p.words span { padding: .1rem .25rem; border-radius: .25rem; cursor: default }
:focus-visible { outline: 3px solid #e08a1e; outline-offset: 1px }
p.partners { min-height: 1.5em; margin: .2rem 0; font-size: .875rem }
p.scale { font-size: .875rem } p.scale b { font-weight: 400; padding: .1rem .6rem; border: 1px solid var(--rule) }
div.scroll { overflow: auto; max-height: 90vh; margin-top: .75rem } table { border-collapse: separate; border-spacing: 0 }
th { font-weight: 400; font-size: .8rem; text-align: right; padding: 0 .4rem; white-space: nowrap }
thead th { vertical-align: bottom; padding: 0; width: 1.5rem; position: sticky; top: 0; z-index: 1 }
thead th div { writing-mode: vertical-rl; margin: auto; padding: .2rem 0 }
th { background: var(--paper) } tbody th, tfoot th, thead th.corner { position: sticky; left: 0 } thead th.corner { z-index: 2; padding: .4rem }
td { min-width: 1.5rem; height: 1.3rem; border: solid var(--rule); border-width: 0 1px 1px 0; font-size: .65rem; text-align: center }
td.gold { outline: 2px solid #e08a1e; outline-offset: -2px }
small { opacity: .75 }
"""
TABLE_STYLE = """
.nmt thead th div { writing-mode: vertical-rl; margin: auto } .nmt td { min-width: 1.5rem; height: 1.3rem; border: 1px solid #d9d5cb;
font-size: .65rem; text-align: center } .nmt td.gold { outline: 2px solid #e08a1e; outline-offset: -2px } .nmt p.scale b { font-weight: 400; padding: .1rem .6rem; border: 1px solid #d9d5cb }
"""
SCRIPT = """
for (const section of document.querySelectorAll("section")) {
  const sources = section.querySelectorAll(".source span"), targets = section.querySelectorAll(".target span")
  const rows = [...section.querySelectorAll("tbody tr")].map(r => [...r.querySelectorAll("td")])
  const partners = section.querySelector(".partners"), size = cell => Math.abs(parseFloat(cell.title)) || 0
  const show = (word, others, cells) => {
    others.forEach((other, k) => {
      other.style.background = cells ? cells[k].style.background : ""; other.style.color = cells ? cells[k].style.color : "" })
    const order = cells ? [...cells.keys()].sort((a, b) => size(cells[b]) - size(cells[a])).filter(k => size(cells[k]) >= 0.005) : []
    partners.textContent = cells ? word.textContent + ": " + (order.slice(0, 5).map(k =>
      others[k].textContent + " " + cells[k].title).join(", ") || "no weight") : "" }
  const watch = (words, others, cells) => words.forEach((word, k) => {
    for (const on of ["mouseenter", "focus"]) word.addEventListener(on, () => show(word, others, cells(k)))
    for (const off of ["mouseleave", "blur"]) word.addEventListener(off, () => show(word, others, null)) })
  watch(targets, sources, j => rows[j]); watch(sources, targets, i => rows.map(r => r[i]))
}
"""
MAX_TITLE = 1000  # characters of a word's title
MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|&~!])")
EQUAL = "The last row shows what equal weights would give: long words get more. "
EMPTY = 0.005  # weights below have no number in their cell: it would be 0 in two digits


class Example(NamedTuple):
    """Sentence pair ``number``: weights (T, S), its words or pieces, and gold links (source, target) if known.

    ``equal`` (S) is a row of weights to compare the others with, such as that of ``display_weights``.
    """

    number: int
    weights: np.ndarray
    source: Sequence[str]
    target: Sequence[str]
    equal: np.ndarray | None = None
    gold: Collection[Link] | None = None


def spread(rows: Sequence[int], lengths: Sequence[int], count: int) -> list[int]:
    """Return up to ``count`` of the ``rows``, whose ``lengths`` are spread evenly from short to long."""
    order = sorted(rows, key=lambda row: (lengths[row], row))
    if len(order) <= count:
        return order
    return [order[round(k * (len(order) - 1) / max(1, count - 1))] for k in range(count)]


def alignment_page(
    examples: Sequence[Example],
    *,
    title: str,
    attention: str = "",
    note: str = "",
    signed: bool = False,
    heading: bool = True,
) -> str:
    """Return the page as HTML text. It needs no other file; its script only shows the partners of a word.

    Weights are coloured as in pictures: from 0 to 1, and ``signed`` weights from −m to m, where m is the largest
    absolute weight of the sentence. Each cell also holds its weight as a number. Without ``heading``, the title stands
    only in the tab of the browser.
    """
    sections = "\n".join(_section(example, signed) for example in examples)
    attention_line = f"Attention: {escape(attention)}. " if attention else ""
    colours = "Blue weights are positive, red ones negative. " if signed else "A darker blue is a larger weight. "
    gold = "Orange outlines are gold links. " if any(example.gold for example in examples) else ""
    scale = "Each sentence has its own scale. " if signed else ""
    equal = EQUAL if any(example.equal is not None for example in examples) else ""
    usage = "Point at a word, or go to it with the Tab key, to see its partners. "
    body = (
        f"{f'<h1>{escape(title)}</h1>' if heading else ''}\n<p>{attention_line}{colours}{scale}{equal}{usage}{gold}</p>\n"
        f"<p><small>{escape(note)}</small></p>\n{sections}\n<script>{SCRIPT}</script>"
    )
    return html_page(title, STYLE, body)


def html_page(title: str, style: str, body: str) -> str:
    """Return a page as HTML text that needs no other file. ``style`` and ``body`` are CSS and HTML, the title is not."""
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>\n'
        f'<meta name="viewport" content="width=device-width"><style>{PAGE_STYLE}{style}</style></head>\n'
        f"<body>\n{body}\n</body></html>\n"
    )


def escape(text: str) -> str:
    """Return the text as HTML, with U+FFFD for control characters."""
    return html.escape(xml_safe(text))


def escape_markdown(text: str) -> str:
    """Return the text with a backslash before each mark of Markdown."""
    return MARKDOWN.sub(r"\\\1", text)


def _section(example: Example, signed: bool) -> str:
    return (
        f'<section id="s{example.number}"><h2>{example.number}</h2>\n'
        f'<p class="words source" dir="auto">{_words(example.source)}</p>\n'
        f'<p class="words target" dir="auto">{_words(example.target)}</p>\n'
        '<p class="partners" aria-live="polite"></p>\n'
        f'<div class="scroll" tabindex="0" role="region" aria-label="weights of sentence {example.number}">'
        f"{_table(example, signed)}</div></section>"
    )


def alignment_table(example: Example, *, signed: bool = False) -> str:
    """Return one sentence pair as an HTML table that needs no style sheet, for example in a notebook."""
    return f'<style>{TABLE_STYLE}</style><div class="nmt">{_table(example, signed)}</div>'


def _table(example: Example, signed: bool) -> str:
    scale = scale_of(example.weights, signed=signed)
    head = "".join(f'<th scope="col">{_label(word)}</th>' for word in example.source)
    gold = set(example.gold or ())
    rows = "\n".join(
        f'<tr><th scope="row">{_label(word)}</th>'
        f"{''.join(_cell(weight, (i, j) in gold, scale) for i, weight in enumerate(row.tolist()))}</tr>"
        for j, (word, row) in enumerate(zip(example.target, example.weights, strict=True))
    )
    corner = '<th class="corner">source →<br>target ↓</th>'
    bar = "".join(f'<b style="{_style(weight, scale)}">{weight:.3g}</b>' for weight in scale.ticks())
    legend = f'<p class="scale">attention weight: {bar}</p>'
    foot = ""
    if example.equal is not None:
        cells = "".join(_cell(weight, False, scale) for weight in example.equal.tolist())
        foot = f'<tfoot><tr><th scope="row">equal weights</th>{cells}</tr></tfoot>'
    return f"{legend}<table><thead><tr>{corner}{head}</tr></thead><tbody>\n{rows}\n</tbody>{foot}</table>"


def _label(word: str) -> str:
    """Return the label of a row or column, with the whole word as its title if it is shortened."""
    label = short_label(word)
    title = f' title="{escape(word[:MAX_TITLE])}"' if label != word else ""
    return f'<div dir="auto"{title}>{escape(label)}</div>'


def _words(words: Sequence[str]) -> str:
    # A mark of direction would turn the words behind it around.
    return " ".join(f'<span tabindex="0">{escape(remove_invisible(word, "all"))}</span>' for word in words)


def _cell(weight: float, gold: bool, scale: Scale) -> str:
    """Return one cell: its colour, its weight as a title in three digits, and as text in two."""
    mark = ' class="gold"' if gold else ""
    if not math.isfinite(weight):
        return f'<td{mark} title="{weight}">{weight}</td>'
    text = f"{weight:.2f}" if scale == UNIT else f"{weight:.2g}"
    text = "" if abs(weight) < EMPTY * scale.limit else text.replace("0.", ".", 1)
    return f'<td{mark} title="{weight:.3g}" style="{_style(weight, scale)}">{text}</td>'


def _style(weight: float, scale: Scale) -> str:
    return "background:{};color:{}".format(*scale.colour(weight))
