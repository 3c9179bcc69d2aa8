"""Tables of measured quality and cost on the attention pages, read from benchmarks/results."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

RESULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "results"
COSTS = {  # title, and the column of cost.md
    "read, µs, S = 100": 1,
    "S = 1,000": 2,
    "S = 20,000": 3,
    "memory, MB, S = 20,000": 5,
    "write, ms, S = 1,000": 6,
    "training, ms, S = 1,000": 7,
}
NOTE = [
    "S is the number of source states. See [how this was measured](../attentions.md#measured), and",
    "[other sizes](../../benchmarks/README.md#what-does-a-read-cost).",
]


@cache
def read_table(name: str) -> dict[str, list[str]]:
    """Return the cells of each row of the Markdown tables in a results file, by the first cell."""
    lines = (RESULTS / name).read_text(encoding="utf-8").splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]
    return {row[0]: row for row in rows}


def measured(kinds: str) -> Iterator[str]:
    """Yield the lines of a table with one row per kind. Raise KeyError for a kind that was not measured."""
    yield from [*table(kinds, COSTS), "", *NOTE]


def overview(kinds: str) -> Iterator[str]:
    """Yield the lines of a table with fewer columns."""
    yield from table(kinds, {"read, µs, S = 1,000": 2, "read, µs, S = 20,000": 3, "write, ms, S = 1,000": 6})


def table(kinds: str, costs: dict[str, int]) -> Iterator[str]:
    titles = ["", "BLEU", "AER", *costs]
    yield from [f"| {' | '.join(titles)} |", f"|{'---|' * len(titles)}"]
    for kind in kinds.split(", "):
        cost = read_table("cost.md")[kind]
        scores = read_table("attentions.md").get(kind, ["", "", "", ""])
        yield f"| {' | '.join([kind, scores[1], scores[3], *(cost[column] for column in costs.values())])} |"
