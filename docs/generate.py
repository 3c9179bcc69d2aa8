"""Write the generated parts of the pages: settings, Python names and measured tables.

    python docs/generate.py

A part stands between ``<!-- generated: KIND WORDS -->`` and ``<!-- end -->``. The rest of a page is written by hand.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from generator.configuration import command, groups
from generator.measured import measured, overview
from generator.names import names

DOCS = Path(__file__).resolve().parent
PART = re.compile(r"(<!-- generated: (\w+)([^\n]*?) -->\n).*?(<!-- end -->)", re.DOTALL)
KINDS: dict[str, Callable[[str], Iterator[str]]] = {
    "command": command,
    "groups": groups,
    "measured": measured,
    "names": names,
    "overview": overview,
}


def main() -> None:
    for page in pages():
        text = page.read_text(encoding="utf-8")
        page.write_text(fill(text), encoding="utf-8")


def pages() -> list[Path]:
    """Return the pages that have a generated part."""
    paths = (path for path in sorted(DOCS.rglob("*.md")) if "_build" not in path.parts)
    return [path for path in paths if PART.search(path.read_text(encoding="utf-8"))]


def fill(text: str) -> str:
    """Return the page with all its parts generated again."""

    def generate(part: re.Match[str]) -> str:
        lines = "\n".join(KINDS[part[2]](part[3].strip()))
        return re.sub(r"\n{3,}", "\n\n", f"{part[1]}\n{lines}\n\n{part[4]}")

    return PART.sub(generate, text)


if __name__ == "__main__":
    main()
