"""Shared parts of the benchmark scripts: command-line options, report header, tables, quartiles."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import mean, median, quantiles, stdev
from typing import Any

from benchmarks.machine import provenance

RESULTS = Path(__file__).parent / "results"
READING = "\n## Reading\n"  # heading of what a person writes under a report


def argument_parser(
    description: str | None,
    output: str = "",
    *,
    threads: int | None = 2,
    rounds: int | None = None,
    runs: str | None = None,
    data: str | None = None,
    seeds: Sequence[int] | None = None,
    report_only: bool = False,
) -> argparse.ArgumentParser:
    """Return a parser with the common options; the default of --output is ``output`` in benchmarks/results.

    ``threads``, ``rounds``, ``runs``, ``data`` and ``seeds`` are defaults; None leaves that option out.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    kind = "results file" if Path(output).suffix else "folder of the results"
    parser.add_argument("--output", type=writable, default=RESULTS / output, help=f"{kind}; default: %(default)s")
    if threads is not None:
        parser.add_argument("--threads", type=int, default=threads, help="default: %(default)s")
    if rounds is not None:
        help_text = "measured rounds, in each of which all candidates take turns; default: %(default)s"
        parser.add_argument("--rounds", type=int, default=rounds, help=help_text)
    if runs is not None:
        help_text = "folder of the runs, reused by a later call; default: %(default)s"
        parser.add_argument("--runs", type=Path, default=Path(runs), help=help_text)
    if data is not None:
        parser.add_argument("--data", type=Path, default=Path(data), help="default: %(default)s")
    if seeds is not None:
        parser.add_argument("--seeds", type=int, nargs="+", default=seeds, help="default: %(default)s")
    if report_only:
        parser.add_argument("--report-only", action="store_true", help="train nothing")
    return parser


def writable(text: str) -> Path:
    """Return the path and create its folder, so that a wrong path fails before the work starts."""
    path = Path(text)
    (path.parent if path.suffix else path).mkdir(parents=True, exist_ok=True)
    return path


def header(title: str, *facts: str) -> list[str]:
    """Return the first lines of a report: its title, the provenance and further facts as a list."""
    return [f"# {title}", "", *(f"- {line}" for line in (*provenance(), *facts)), ""]


def table_head(*columns: str) -> list[str]:
    """Return the heading of a Markdown table."""
    return [row(*columns), "|---" * len(columns) + "|"]


def row(*cells: Any) -> str:
    """Return one row of a Markdown table."""
    return f"| {' | '.join(map(str, cells))} |"


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    """Return a Markdown table."""
    return [*table_head(*columns), *(row(*cells) for cells in rows)]


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """Return lower quartile, median and upper quartile; a single value is all three."""
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, _, high = quantiles(values, n=4)
    return low, median(values), high


def with_quartiles(values: Sequence[float], form: str = ".2f") -> str:
    """Return ``median (lower quartile–upper quartile)``."""
    low, middle, high = quartiles(values)
    return f"{middle:{form}} ({low:{form}}–{high:{form}})"


def with_deviation(values: Sequence[float], form: str = ".2f") -> str:
    """Return ``mean ± standard deviation``, or the value alone if there is only one."""
    deviation = f" ± {stdev(values):{form}}" if len(values) > 1 else ""
    return f"{mean(values):{form}}{deviation}"


def with_range(values: Sequence[float], form: str = ".3f") -> str:
    """Return ``mean (lowest–highest)``, or the value alone if there is only one."""
    ends = f" ({min(values):{form}}–{max(values):{form}})" if len(values) > 1 else ""
    return f"{mean(values):{form}}{ends}"


def save(file: Path, lines: Sequence[str], *, show: bool = True) -> None:
    """Write the report, and print it unless its rows have been printed already.

    Text that a person wrote into the file, from the line READING to the end, stays.
    """
    old = file.read_text(encoding="utf-8") if file.exists() else ""
    reading = READING + old.partition(READING)[2] if READING in old else ""
    file.write_text("\n".join(lines) + "\n" + reading, encoding="utf-8")
    if show:
        print("\n".join(lines))
