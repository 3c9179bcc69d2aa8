"""Tables of measured quality and cost on the attention pages, read from benchmarks/results when the site is built."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

FENCE = re.compile(r"^```\{measured\}\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COSTS = {  # title, and the column of cost.md
    "read, µs, S = 100": 1,
    "S = 1,000": 2,
    "S = 20,000": 3,
    "memory, MB, S = 20,000": 5,
    "write, ms, S = 1,000": 6,
    "training, ms, S = 1,000": 7,
}
NOTE = (
    "S is the number of source states. Times: states of 512, float32, one thread of an AMD EPYC; a read has five "
    "queries, a training step 32. BLEU and AER: generated sentences with 19.9 states on average, 5 % of them above 32, "
    "equal updates, three seeds. Other sizes and commands: [benchmarks](../benchmarks.md#what-does-a-read-cost)."
)


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("source-read", fill_page)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def fill_page(app: Sphinx, name: str, source: list[str]) -> None:
    """Replace each ``{measured}`` by a table with one row per kind that it names."""
    results = Path(app.srcdir).parent / "benchmarks" / "results"
    files = [results / file for file in ("cost.md", "attentions.md")]
    if FENCE.search(source[0]):
        cost, quality = (dict(read_table(file)) for file in files)
        source[0] = FENCE.sub(lambda fence: "\n".join(table(fence[1].splitlines(), cost, quality)), source[0])
        for file in files:
            app.env.note_dependency(str(file))


def read_table(file: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield the first cell and all cells of each row of the Markdown tables in the file."""
    for line in file.read_text(encoding="utf-8").splitlines():
        if line.startswith("| "):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            yield cells[0], cells


def table(kinds: list[str], cost: dict[str, list[str]], quality: dict[str, list[str]]) -> Iterator[str]:
    """Yield the lines of the table. Raise ExtensionError for a kind that was not measured."""
    titles = ["", "BLEU", "AER", *COSTS]
    yield from [f"| {' | '.join(titles)} |", f"|{'---|' * len(titles)}"]
    for kind in kinds:
        if kind not in cost:
            raise ExtensionError(f"{kind}: not in benchmarks/results/cost.md")
        scores = quality.get(kind, ["", "", "", ""])
        cells = [kind, scores[1], scores[3], *(cost[kind][column] for column in COSTS.values())]
        yield f"| {' | '.join(cells)} |"
    yield from ["", NOTE]
