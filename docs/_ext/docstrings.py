"""Docstrings of this project as reStructuredText.

They are written for readers of the source: equations and small tables stand in plain, aligned lines. These lines become
literal blocks, and characters with a meaning in reStructuredText are escaped elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from sphinx.application import Sphinx

CODE = re.compile(r"(``[^`]+``)")
ALIGNED = re.compile(r"\S {3,}\S")  # columns of a table, or equations with remarks
BOUNDED = re.compile(r"(?:typing\.)?Annotated\[([^\[\],]+), (?:[^\[\]]|\([^()]*\))*\]")


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("autodoc-process-docstring", rewrite_docstring)
    app.connect("autodoc-process-signature", shorten_signature)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def rewrite_docstring(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    lines[:] = list(to_restructured_text(lines))


def shorten_signature(
    app: Sphinx, what: str, name: str, thing: Any, options: Any, signature: str | None, returns: str | None
) -> tuple[str | None, str | None]:
    """Remove bounds from annotations; the configuration reference lists them.

    Sphinx cannot parse ``<factory>``, the default of some fields, and then splits annotations at their commas.
    """
    return (BOUNDED.sub(r"\1", signature).replace("<factory>", "...") if signature else signature), returns


def to_restructured_text(lines: list[str]) -> Iterator[str]:
    """Yield the lines of the docstring, with literal blocks where lines are indented or aligned."""
    for paragraph in paragraphs(lines):
        if all(line.startswith("    ") for line in paragraph) or any(map(ALIGNED.search, paragraph)):
            indent = min(len(line) - len(line.lstrip()) for line in paragraph)
            yield from [".. code-block:: text", "", *(f"    {line[indent:]}" for line in paragraph), ""]
        else:
            yield from [*map(escape, paragraph), ""]


def paragraphs(lines: list[str]) -> Iterator[list[str]]:
    """Yield blocks of lines between blank lines."""
    block: list[str] = []
    for line in [*lines, ""]:
        if line.strip():
            block.append(line.rstrip())
        elif block:
            yield block
            block = []


def escape(line: str) -> str:
    """Escape ``*``, ``|`` and the underscore at the end of a word, except in code."""
    pieces = CODE.split(line)
    pieces[::2] = [re.sub(r"[*|]|_(?!\w)", r"\\\g<0>", piece) for piece in pieces[::2]]
    return "".join(pieces)
