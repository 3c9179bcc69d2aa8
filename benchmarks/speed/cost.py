"""Measure what each attention costs: time and memory of writing a source, of one look-up, and of training.

The source length, the size of the memory and the number of queries vary; float32, one source, sizes of 512. Each figure
is the median of rounds in which all attentions take turns, so that figures of a round can be compared. The script
writes a CSV, plots, and a summary with the exponent of the look-up time in the source length, fitted over 1,000 to
20,000 states. Peak memory is measured in one process per attention, which returns freed memory at once.

    python -m benchmarks.speed.cost

With --paper it measures only the look-ups of the covariance paper (de Brébisson & Vincent 2016, §5): n = 750 states of
k = 100, for which the paper expects a softmax to take n / k ≈ 7 times as long as C q.

    python -m benchmarks.speed.cost --paper
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import torch
from matplotlib.figure import Figure

from benchmarks.report import argument_parser, header, row, save, table_head
from benchmarks.speed.cost_measure import (
    BEAM,
    CONSTANT,
    KINDS,
    LENGTHS,
    MIDDLE_LENGTH,
    PAPER_LENGTH,
    PAPER_PAIRS,
    PAPER_QUERIES,
    PAPER_ROUNDS,
    PAPER_SIZE,
    SIZE,
    TARGET,
    Cell,
    look_up_ratios,
    measure_lengths,
    measure_queries,
    measure_sizes,
    paper_look_ups,
    training_peaks,
)
from nmt.testing import exponent

COLUMNS = (
    *(f"look-up, µs, S = {length}" for length in ("100", "1,000", "20,000")),
    "exponent in S",
    "memory, MB, S = 20,000",
    "write, ms, S = 1,000",
    *(f"{figure}, S = {length}" for length in ("1,000", "20,000") for figure in ("training, ms", "its peak, MB")),
)
PANELS = [
    ("length", "write", "ms", "writing a source, ms"),
    ("length", "look-up", "ms", f"a look-up of {BEAM} queries, ms"),
    ("length", "training", "ms", f"forward and backward, {TARGET} queries, ms"),
    ("length", "look-up", "bytes", "memory of a source, MB"),
    ("length", "training", "bytes", "peak of forward and backward, MB"),
    ("size", "look-up", "ms", "a look-up, S = 1,000, ms"),
    ("queries", "look-up", "ms", "a read of all queries, S = 1,000, ms"),
]
AXES = {"length": "source states", "size": "K, key size or state size", "queries": "queries"}
ByLength = dict[tuple[str, int, str], Cell]


def main() -> None:
    parser = argument_parser(__doc__, rounds=7)
    parser.add_argument("--peaks", default=None, help=argparse.SUPPRESS)
    parser.add_argument("--paper", action="store_true", help="measure the look-ups of the covariance paper only")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.set_flush_denormal(True)  # as nmt-train does
    torch.manual_seed(1)
    if args.peaks is not None:
        print(json.dumps(training_peaks(args.peaks)))
        return
    if args.paper:
        save(args.output / "cost_paper.md", paper_report(args))
        return
    peaks = {kind: peaks_in_process(kind, args.threads) for kind in KINDS}
    cells = [*measure_lengths(args.rounds, peaks), *measure_sizes(args.rounds), *measure_queries(args.rounds)]
    with (args.output / "cost.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(Cell._fields)
        writer.writerows((*cell[:4], *(f"{number:.5f}" for number in cell[4:7]), cell.bytes) for cell in cells)
    plot(cells, args.output / "cost.png")
    save(args.output / "cost.md", report(cells, args.threads, look_up_ratios(args.rounds)))


def paper_report(args: argparse.Namespace) -> list[str]:
    """Return the report of --paper: a row for each way to compute a look-up, a column for each number of queries."""
    lines = header(
        "The look-ups of the covariance paper",
        f"n = {PAPER_LENGTH} states of k = {PAPER_SIZE}, one document, float32, threads: {args.threads}",
        f"µs of a read of all queries, in the fastest of {PAPER_ROUNDS} rounds: other programs can only slow it down",
        "products: torch's functions alone, with H (n × k) or C (k × k)",
    )
    lines += table_head("look-up", *(f"queries = {count:,}" for count in PAPER_QUERIES))
    columns = [paper_look_ups(count) for count in PAPER_QUERIES]
    lines += [row(kind, *(f"{column[kind]:,.1f}" for column in columns)) for kind in columns[0]]
    for softmax, linear in PAPER_PAIRS:
        lines.append(row(f"{softmax} / {linear}", *(f"{column[softmax] / column[linear]:.1f}" for column in columns)))
    return lines


def peaks_in_process(kind: str, threads: int) -> list[int]:
    """Return ``training_peaks`` from a process whose allocator returns freed blocks of 64 kB and more at once."""
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
    command = [sys.executable, "-m", "benchmarks.speed.cost", "--peaks", kind, "--threads", str(threads)]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    peaks: list[int] = json.loads(result.stdout)
    return peaks


def report(cells: list[Cell], threads: int, ratios: dict[str, float]) -> list[str]:
    """Return the summary of all cells against the source length."""
    by_length = {(cell.kind, cell.value, cell.phase): cell for cell in cells if cell.axis == "length"}
    lines = header(
        "What each attention costs",
        f"B = 1 source, sizes {SIZE}, float32, {threads} threads; a look-up is Q = {BEAM} queries, training {TARGET}",
        "medians of rounds in which all kinds took turns; quartiles, and all other figures, in cost.csv",
    )
    lines += [*table_head("attention", *COLUMNS), *(kind_row(kind, by_length) for kind in KINDS)]
    lines += ["", "Look-up time at S = 20,000 relative to S = 100, median of paired runs:", ""]
    lines += [f"- {kind}: {ratio:.2f}" for kind, ratio in ratios.items()]
    ratio = by_length["bahdanau", 2_000, "look-up"].ms / by_length["memory", 2_000, "look-up"].ms
    lines += ["", f"At S = 2,000 a look-up in memory (K = 32) is {ratio:.0f} times as fast as Bahdanau's."]
    lines += ["", "The shortest source at which the look-up is faster than that of Luong general attention:", ""]
    lines += [f"- {kind}: {crossing(by_length, kind)}" for kind in CONSTANT]
    return [*lines, "", "![cost against source length, memory size and number of queries](cost.png)"]


def kind_row(kind: str, by_length: ByLength) -> str:
    """Return the table row of one kind."""
    look_ups = [by_length[kind, length, "look-up"].ms * 1000 for length in (100, 1_000, 20_000)]
    memory = by_length[kind, 20_000, "look-up"].bytes / 2**20
    long = {length: by_length[kind, length, "look-up"].ms for length in LENGTHS if length >= MIDDLE_LENGTH}
    cells = [kind, *(f"{us:,.0f}" for us in look_ups), f"{exponent(long):+.2f}", f"{memory:.1f}"]
    cells.append(f"{by_length[kind, 1_000, 'write'].ms:.2f}")
    for length in (1_000, 20_000):
        training = by_length.get((kind, length, "training"))
        cells += [f"{training.ms:,.1f}", f"{training.bytes / 2**20:,.0f}"] if training else ["–", "–"]
    return row(*cells)


def crossing(by_length: ByLength, kind: str) -> str:
    """Return the first length at which the look-up is faster than Luong general attention's."""
    for length in LENGTHS:
        if by_length[kind, length, "look-up"].ms < by_length["luong general", length, "look-up"].ms:
            return f"{length:,}"
    return "none up to 20,000"


def plot(cells: list[Cell], file: Path) -> None:
    """Draw one panel per axis and phase."""
    figure = Figure(figsize=(16, 13), layout="constrained")
    axes = figure.subplots(3, 3).flatten()
    styles = {name: (f"C{index % 10}", ("-", "--", ":")[index // 10]) for index, name in enumerate(KINDS)}
    for axis, (variable, phase, unit, title) in zip(axes, PANELS, strict=False):
        for kind, (color, style) in styles.items():
            points = [cell for cell in cells if (cell.axis, cell.kind, cell.phase) == (variable, kind, phase)]
            heights = [cell.ms if unit == "ms" else cell.bytes / 2**20 for cell in points]
            if heights and max(heights) > 0:
                values = [cell.value for cell in points]
                axis.plot(values, heights, color=color, linestyle=style, label=kind, marker=".")
        axis.set(xscale="log", yscale="log", title=title)
        axis.set_xlabel(AXES[variable])
    axes[7].axis("off")
    axes[8].axis("off")
    handles, labels = axes[1].get_legend_handles_labels()
    axes[7].legend(handles, labels, loc="upper left", ncols=2, frameon=False)
    figure.savefig(file, dpi=110)


if __name__ == "__main__":
    main()
