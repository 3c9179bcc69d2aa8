"""The table of a sweep: mean and standard deviation of each result over the seeds."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from nmt.comparison.measures import Column, mean_and_deviation
from nmt.files.atomic import write_lines

SEED = "seed"
Record = Mapping[str, Any]


RESULTS = (
    Column("bleu", "BLEU", ".2f"),
    Column("chrf", "chrF", ".2f"),
    Column("aer", "AER", ".3f"),
    Column("valid_loss", "valid loss", ".3f"),
    Column("tokens_per_s", "tokens/s", ",.0f"),
    Column("seconds", "seconds", ",.1f"),
)


class Group(NamedTuple):
    """The jobs that differ in their seed only. ``values`` are those of the finished ones, by key."""

    settings: dict[str, str]
    finished: int
    unfinished: list[str]  # what distinguishes the other jobs, such as seed=3
    values: dict[str, list[float]]


def group_by_seed(records: Sequence[Record]) -> list[Group]:
    """Return the groups of jobs, in the order of their first jobs."""
    groups: dict[tuple[tuple[str, str], ...], list[Record]] = {}
    for record in records:
        settings = tuple((key, value) for key, value in record["settings"].items() if key != SEED)
        groups.setdefault(settings, []).append(record)
    return [_group(dict(settings), members) for settings, members in groups.items()]


def _group(settings: dict[str, str], members: Sequence[Record]) -> Group:
    finished = [record for record in members if record["status"] == "finished"]
    unfinished = [
        f"seed={record['settings'][SEED]}" if SEED in record["settings"] else "this job"
        for record in members
        if record["status"] != "finished"
    ]
    values = {
        column.key: [float(record[column.key]) for record in finished if record[column.key] is not None]
        for column in RESULTS
    }
    return Group(settings, len(finished), unfinished, values)


def write_table(records: Sequence[Record], folder: Path) -> None:
    """Write the groups into ``sweep.csv`` and the jobs into ``sweep.json``."""
    groups = group_by_seed(records)
    keys = list(dict.fromkeys(key for group in groups for key in group.settings))
    statistics = [f"{column.key}_{name}" for column in RESULTS for name in ("mean", "sd")]
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow([*keys, "n", "unfinished", *statistics])
    for group in groups:
        cells = [cell for column in RESULTS for cell in mean_and_deviation(group.values[column.key])]
        settings = [group.settings.get(key, "") for key in keys]
        writer.writerow([*settings, group.finished, len(group.unfinished), *("" if x is None else x for x in cells)])
    write_lines(folder / "sweep.csv", table.getvalue().splitlines())
    jobs = [{key: value for key, value in record.items() if key != "call"} for record in records]
    write_lines(folder / "sweep.json", json.dumps(jobs, indent=2).split("\n"))


def print_table(records: Sequence[Record], folder: Path) -> None:
    """Print one line per group on stdout."""
    if sys.stdout is None:  # closed, as by >&-
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    groups = group_by_seed(records)
    keys = list(dict.fromkeys(key for group in groups for key in group.settings))
    shown = [column for column in RESULTS if any(group.values[column.key] for group in groups)]
    table = Table()
    for key in keys:
        table.add_column(Text(key), overflow="fold")
    for heading in ("n", *(column.heading for column in shown)):
        table.add_column(heading, justify="right", no_wrap=True)
    unfinished = any(group.unfinished for group in groups)
    if unfinished:
        table.add_column("unfinished", overflow="fold")
    for group in groups:
        cells = ["".join(column.texts(group.values[column.key])) for column in shown]
        last = [Text(", ".join(group.unfinished))] if unfinished else []
        table.add_row(*(Text(group.settings.get(key, "")) for key in keys), str(group.finished), *cells, *last)
    console = Console(width=None if sys.stdout.isatty() else 140)
    console.print(Text(f"{folder}: mean ± standard deviation over n jobs"))
    console.print(table)
