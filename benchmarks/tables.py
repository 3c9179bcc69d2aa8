"""Copy tables of results files into the pages, so that no number is typed.

A page asks for a table with a comment, which readers do not see. The table below it is replaced:

    <!-- table: startup: s, median (quartiles) as seconds; resident memory, MB -->
    <!-- table: attentions: BLEU; AER | cost: look-up, µs, S = 1,000 -->

Columns are named as in the results file, and ``as`` gives them another title. With two files, rows with the same first
cell are joined, and a row that only one file has gets empty cells.

    python -m benchmarks.tables            rewrites the pages that are out of date and names them
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from benchmarks.report import RESULTS, table

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "attentions").glob("*.md")]
PAGES.append(ROOT / "benchmarks" / "README.md")
REQUEST = re.compile(r"(<!-- table: ([^>]+) -->\n)((?:\|.*\n)*)")


def main() -> None:
    for page in PAGES:
        before = page.read_text(encoding="utf-8")
        after = with_tables(before, RESULTS)
        if after != before:
            page.write_text(after, encoding="utf-8")
            print(page.relative_to(ROOT))


def with_tables(text: str, results: Path) -> str:
    """Return the text of a page with its tables copied from the results files."""
    return REQUEST.sub(lambda match: match[1] + "".join(f"{line}\n" for line in requested(match[2], results)), text)


def requested(request: str, results: Path) -> list[str]:
    """Return the table that a comment asks for."""
    titles, rows = [""], dict[tuple[str, int], list[str]]()
    for part in request.split(" | "):
        name, _, wanted = part.partition(": ")
        heading, *body = read_table(results / f"{name}.md")
        columns = []
        for column in wanted.split("; "):
            source, _, title = column.partition(" as ")
            if source not in heading:
                sys.exit(
                    f"<!-- table: {request} -->: no column {source!r} in {name}.md; it has {'; '.join(heading[1:])}"
                )
            columns.append(heading.index(source))
            titles.append(title or source)
        titles[0] = titles[0] or heading[0]
        labels = [cells[0] for cells in body]
        for index, cells in enumerate(body):
            row = rows.setdefault((cells[0], labels[:index].count(cells[0])), [])
            row += [""] * (len(titles) - 1 - len(columns) - len(row)) + [cells[column] for column in columns]
    return table(titles, ([label, *row, *[""] * (len(titles) - 1 - len(row))] for (label, _), row in rows.items()))


def read_table(file: Path) -> list[list[str]]:
    """Return the rows of the first Markdown table of a file, the heading first."""
    rows: list[list[str]] = []
    for line in file.read_text(encoding="utf-8").splitlines():
        if line.startswith("|"):
            rows.append([cell.strip() for cell in line.strip("|").split("|")])
        elif rows:
            break
    return [rows[0], *rows[2:]]


if __name__ == "__main__":
    main()
