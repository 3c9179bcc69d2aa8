"""Measure how decoding slows down with the source length, for four attentions in otherwise equal reference models.

Each cell decodes a batch of 32 sources with beam 5 and --steps decoder steps, by onnx-int8. "step" is the time of one
decoder step, without encoding.

    python -m benchmarks.speed.lengths
"""

from __future__ import annotations

import argparse
import csv
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure

from benchmarks.report import argument_parser, header, save, table
from benchmarks.speed.decode import decode_steps, load_engines
from benchmarks.speed.reference import VOCABULARY, reference
from nmt.text.specials import EOS

KINDS = {
    "memory, K = 32": ["memory"],
    "located_memory, K = 32": ["located_memory"],
    "bahdanau": ["bahdanau"],
    "luong general": ["luong"],
}
LENGTHS = (10, 15, 25, 35, 64, 100, 200, 500, 1000)
BATCH, BEAM = 32, 5


def main() -> None:
    parser = argument_parser(__doc__, rounds=7, runs="runs/decode")
    parser.add_argument("--engine", nargs=1, default=["onnx-int8"], help="default: onnx-int8")
    parser.add_argument("--length", type=int, nargs="+", default=LENGTHS, help="source pieces; default: %(default)s")
    parser.add_argument("--steps", type=int, default=35, help="decoder steps; default: %(default)s")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    runs = {name: reference(args.runs, words) for name, words in KINDS.items()}
    engines = {name: next(load_engines(run, args, BATCH * BEAM))[1] for name, run in runs.items()}
    rows: list[list[float]] = []
    for length in args.length:
        totals, steps = time_engines(engines, length, args)
        rows.append([length, *totals, *steps])
        print(*(f"{number:.4g}" for number in rows[-1]), flush=True)
    save(args.output / "lengths.md", report(args, rows), show=False)
    with (args.output / "lengths.csv").open("w", newline="", encoding="utf-8") as file:
        names = [f"{name}, {quantity}" for quantity in ("total, s", "step, s") for name in KINDS]
        csv.writer(file).writerows([["S", *names], *rows])
    plot(rows, args.output / "lengths.png")


def time_engines(engines: dict[str, Any], length: int, args: argparse.Namespace) -> tuple[list[float], list[float]]:
    """Return the median seconds of a batch and of one decoder step, by engine."""
    random = np.random.default_rng(1)
    lines = [[*random.integers(300, VOCABULARY, length - 1).tolist(), EOS] for _ in range(BATCH)]
    totals: dict[str, list[float]] = {name: [] for name in engines}
    steps: dict[str, list[float]] = {name: [] for name in engines}
    for index in range(args.rounds + 1):
        for name, engine in engines.items():
            started = time.perf_counter()
            engine.encode(lines)
            encoded = time.perf_counter()
            decode_steps(engine, lines, BEAM, BATCH, args.steps)
            ended = time.perf_counter()
            if index:  # round 0 is the warm-up
                totals[name].append(ended - encoded)
                steps[name].append((ended - encoded - (encoded - started)) / args.steps)
    return [median(times) for times in totals.values()], [median(times) for times in steps.values()]


def report(args: argparse.Namespace, rows: list[list[float]]) -> list[str]:
    """Return the report with one table row per source length."""
    first, *others = KINDS
    columns = ["S", *(f"{name}, s" for name in KINDS), *(f"{name} / {first}" for name in others)]
    columns += [f"{name}, ms per step" for name in KINDS]
    count, cells = len(KINDS), []
    for length, *numbers in rows:
        totals, milliseconds = numbers[:count], [1000 * number for number in numbers[count:]]
        ratios = [f"{total / totals[0]:.2f}×" for total in totals[1:]]
        cells.append([length, *(f"{total:.3f}" for total in totals), *ratios, *(f"{ms:.2f}" for ms in milliseconds)])
    conditions = (
        f"{args.engine[0]}, batch of {BATCH}, beam {BEAM}, {args.steps} steps, {args.threads} threads, medians of "
        f"{args.rounds} rounds in turns"
    )
    return [*header("Decoding by source length", conditions), *table(columns, cells)]


def plot(rows: list[list[float]], file: Path) -> None:
    """Draw the milliseconds of a step against the source length."""
    figure = Figure(figsize=(6.4, 4), layout="constrained")
    axes = figure.subplots()
    lengths, count = [row[0] for row in rows], len(KINDS)
    for index, name in enumerate(KINDS):
        axes.plot(lengths, [1000 * row[1 + count + index] for row in rows], marker="o", markersize=3, label=name)
    axes.set(xscale="log", yscale="log", xlabel="source pieces", ylabel="milliseconds per step")
    axes.legend(frameon=False)
    figure.savefig(file, dpi=130)


if __name__ == "__main__":
    main()
