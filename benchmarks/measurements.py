"""Measurements of a benchmark that are kept in a file, so that a later call measures only what is missing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.machine import commit
from benchmarks.runs import read_records

Record = dict[str, Any]


class Measurements:
    """Finished measurements in a file of JSON lines: each is a cell, by which it is found, and its results."""

    def __init__(self, file: Path) -> None:
        self.file = file
        file.parent.mkdir(parents=True, exist_ok=True)
        self.records: list[Record] = read_records(file, "cell")

    def find(self, **cell: Any) -> list[Record]:
        """Return the records of all cells with these values."""
        return [record for record in self.records if cell.items() <= record["cell"].items()]

    def measure(self, function: Any, **cell: Any) -> None:
        """Add the results ``function`` returns for a cell, unless the cell is known or ``function`` returns None."""
        if self.find(**cell):
            return
        results = function(**{name: value for name, value in cell.items() if name != "task"})
        if results is None:
            return
        self.records.append({"cell": cell, "commit": commit(), **results})
        print(json.dumps(self.records[-1])[:150], flush=True)
        with self.file.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(self.records[-1]) + "\n")

    def commits(self) -> str:
        """Return the commits at which the cells were measured."""
        return ", ".join(sorted({record["commit"] for record in self.records}))
