"""A self-contained HTML page of alignments: pointing at a word highlights its partners."""

from __future__ import annotations

import html
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from nmt.alignment.characters import xml_safe
from nmt.text.links import Link

BLUE, RED = 211, 8  # degrees on the colour wheel
STYLE = """
:root { color-scheme: light dark; --ink: #1c2733; --paper: #fbfaf7; --rule: #d9d5cb; --hue: 211 }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e3da; --paper: #15191e; --rule: #39414a } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 2rem auto; max-width: 76rem;
  padding: 0 1rem }
h1 { font-size: 1.5rem } h2 { font-size: 1rem; margin: 2.5rem 0 .5rem; border-top: 1px solid var(--rule); padding-top: 1rem }
p.words { margin: .2rem 0 } p.words span { padding: .1rem .25rem; border-radius: .25rem; cursor: default }
p.words span:focus { outline: 2px solid hsl(var(--hue) 70% 50%) }
div.scroll { overflow: auto; max-height: 90vh; margin-top: .75rem } table { border-collapse: separate; border-spacing: 0 }
th { font-weight: 400; font-size: .8rem; text-align: right; padding: 0 .4rem; white-space: nowrap }
thead th { vertical-align: bottom; padding: 0; width: 1.5rem; position: sticky; top: 0; z-index: 1 }
thead th div { writing-mode: vertical-rl; margin: auto; padding: .2rem 0 }
th { background: var(--paper) } tbody th, thead th.corner { position: sticky; left: 0 } thead th.corner { z-index: 2; padding: .4rem }
td { min-width: 1.5rem; height: 1.3rem; border: solid var(--rule); border-width: 0 1px 1px 0 } td.gold { outline: 2px solid #e08a1e; outline-offset: -2px }
small { opacity: .75 }
"""
TABLE_STYLE = """
.nmt thead th div { writing-mode: vertical-rl; margin: auto } .nmt td { width: 1.5rem; height: 1.3rem; border: 1px solid #d9d5cb }
"""
SCRIPT = """
for (const section of document.querySelectorAll("section")) {
  const sources = section.querySelectorAll(".source span"), targets = section.querySelectorAll(".target span")
  const rows = [...section.querySelectorAll("tbody tr")].map(r => [...r.querySelectorAll("td")].map(c => c.style.background))
  const paint = (words, colours) => words.forEach((word, k) => word.style.background = colours ? colours[k] : "")
  const watch = (words, others, colours) => words.forEach((word, k) => {
    for (const on of ["mouseenter", "focus"]) word.addEventListener(on, () => paint(others, colours(k)))
    for (const off of ["mouseleave", "blur"]) word.addEventListener(off, () => paint(others, null)) })
  watch(targets, sources, j => rows[j]); watch(sources, targets, i => rows.map(r => r[i]))
}
"""


class Example(NamedTuple):
    """Sentence pair ``number``: weights (T, S), its words or pieces, and gold links (source, target) if known."""

    number: int
    weights: np.ndarray
    source: Sequence[str]
    target: Sequence[str]
    gold: Collection[Link] | None = None


def alignment_page(
    examples: Sequence[Example], *, title: str, attention: str = "", note: str = "", signed: bool = False
) -> str:
    """Return the page as HTML text. It needs no other file; its script only does the highlighting.

    Each weight is drawn relative to the largest of its sentence, so that soft attentions are visible too. ``signed``
    gives negative weights a colour different from that of positive ones.
    """
    sections = "\n".join(_section(example, signed) for example in examples)
    attention_line = f"Attention: {_escape(attention)}. " if attention else ""
    signs = "Red is positive, blue negative. " if signed else ""
    gold = "Orange outlines are gold links. " if any(example.gold for example in examples) else ""
    colours = f"Stronger colours mean larger weights; the strongest marks the largest weight of the sentence. {signs}"
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{_escape(title)}</title>\n'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head><body>\n'
        f"<h1>{_escape(title)}</h1>\n<p>{attention_line}{colours}Point at a word to see its partners. {gold}</p>\n"
        f"<p><small>{_escape(note)}</small></p>\n{sections}\n<script>{SCRIPT}</script></body></html>\n"
    )


def _section(example: Example, signed: bool) -> str:
    return (
        f'<section id="s{example.number}"><h2>{example.number}</h2>\n<p class="words source">{_words(example.source)}</p>\n'
        f'<p class="words target">{_words(example.target)}</p>\n<div class="scroll">{_table(example, signed)}</div></section>'
    )


def alignment_table(example: Example, *, signed: bool = False) -> str:
    """Return one sentence pair as an HTML table that needs no style sheet, for example in a notebook."""
    return f'<style>{TABLE_STYLE}</style><div class="nmt">{_table(example, signed)}</div>'


def _table(example: Example, signed: bool) -> str:
    limit = float(np.abs(example.weights).max(initial=0)) or 1.0
    head = "".join(f"<th><div>{_escape(word)}</div></th>" for word in example.source)
    gold = set(example.gold or ())
    rows = "\n".join(
        f"<tr><th>{_escape(word)}</th>{''.join(_cell(w / limit, w, (i, j) in gold, signed) for i, w in enumerate(row))}</tr>"
        for j, (word, row) in enumerate(zip(example.target, example.weights, strict=True))
    )
    corner = '<th class="corner">source →<br>target ↓</th>'
    return f"<table><thead><tr>{corner}{head}</tr></thead><tbody>\n{rows}\n</tbody></table>"


def _escape(text: str) -> str:
    return html.escape(xml_safe(text))


def _words(words: Sequence[str]) -> str:
    return " ".join(f'<span tabindex="0">{_escape(word)}</span>' for word in words)


def _cell(share: float, weight: float, gold: bool, signed: bool) -> str:
    mark = ' class="gold"' if gold else ""
    hue = RED if signed and weight > 0 else BLUE
    return f'<td{mark} title="{weight:.3g}" style="background:hsl({hue} 75% 50% / {abs(share):.3f})"></td>'
