"""Measure how many facts a memory of fixed size can hold: the task of the covariance paper, for seven attentions.

A recurrent encoder reads a document once. Each of its 16 questions is one look-up, answered by a softmax over all
candidates. Documents hold n facts: up to 200 in training, up to 2,000 in the test. With --babi, the first bAbI task is
also trained; there, a question is answered from the part of the story before it. The script writes a table of
accuracies (mean and range over seeds) and of look-up times against length. An interrupted benchmark continues where it
stopped.

    python benchmarks/cloze.py --babi data/babi-qa1-en-10k
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np
import torch
from cloze_model import KINDS, MAX_TRAIN_FACTS, SIZE, TEST_FACTS, Reader, train_on_babi, train_on_facts
from cloze_task import PLACES, QUESTIONS, read_babi
from matplotlib.figure import Figure
from report import argument_parser, header, save, table

LENGTHS = [100, 1_000, 5_000, 20_000]
LOOK_UPS = 1_000
Cells = dict[tuple[str, int], dict[str, Any]]


def main() -> None:
    args = parse_arguments()
    if args.cell is not None:
        train_cell(args, args.cell[0], int(args.cell[1]))
        return
    args.runs.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(args.jobs) as pool:
        list(pool.map(lambda cell: launch(args, *cell), product(args.seeds, KINDS)))
    cells: Cells = {
        (kind, seed): json.loads(cell_file(args, kind, seed).read_text()) for seed, kind in product(args.seeds, KINDS)
    }
    times = look_up_times()
    plot(args, cells, times)
    save(args.output / "cloze.md", report(args, cells, times))


def parse_arguments() -> argparse.Namespace:
    parser = argument_parser(__doc__, threads=None, runs="runs/cloze")
    help_text = "training of each cell on generated documents; default: %(default)s"
    parser.add_argument("--minutes", type=float, default=3.0, help=help_text)
    help_text = "training of each cell on bAbI; default: %(default)s"
    parser.add_argument("--babi-minutes", type=float, default=0.75, help=help_text)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3], help="default: %(default)s")
    parser.add_argument("--babi", type=Path, default=None, help="folder with qa1_train.txt.gz and qa1_test.txt.gz")
    help_text = "cells trained at the same time, with one thread each; default: %(default)s"
    parser.add_argument("--jobs", type=int, default=2, help=help_text)
    parser.add_argument("--cell", nargs=2, default=None, help=argparse.SUPPRESS)
    return parser.parse_args()


def cell_file(args: argparse.Namespace, kind: str, seed: int) -> Path:
    return Path(args.runs / f"{kind.replace(' ', '-').replace(',', '')}-{seed}.json")


def launch(args: argparse.Namespace, seed: int, kind: str) -> None:
    """Train one cell in a separate process, unless its file exists."""
    if cell_file(args, kind, seed).is_file():
        return
    command = [sys.executable, __file__, "--cell", kind, str(seed), "--runs", str(args.runs)]
    command += ["--minutes", str(args.minutes), "--babi-minutes", str(args.babi_minutes)]
    command += ["--babi", str(args.babi)] if args.babi is not None else []
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        sys.exit(f"{kind}, seed {seed}:\n{result.stderr}")
    print(result.stdout.strip(), flush=True)


def train_cell(args: argparse.Namespace, kind: str, seed: int) -> None:
    """Train and test one attention with one seed on both tasks, and write the results."""
    torch.set_num_threads(1)
    result: dict[str, Any] = {**train_on_facts(kind, seed, args.minutes), "babi": None}
    if args.babi is not None:
        train = read_babi(args.babi / "qa1_train.txt.gz")
        test = read_babi(args.babi / "qa1_test.txt.gz", train)
        result["babi"] = train_on_babi(kind, seed, args.babi_minutes, train, test)
    cell_file(args, kind, seed).write_text(json.dumps(result))
    print(f"{kind}, seed {seed}: {result}")


@torch.no_grad()
def look_up_times() -> dict[str, list[float]]:
    """Return the milliseconds of 1,000 look-ups, 16 at a time, for each of LENGTHS: medians of 5 rounds in turns."""
    torch.set_num_threads(1)
    attentions = {kind: Reader(words, 2, 2).attention for kind, words in KINDS.items()}
    times: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for length in LENGTHS:
        states, mask = torch.randn(1, length, SIZE), torch.ones(1, length, dtype=torch.bool)
        memories = {kind: attention.write(states, mask) for kind, attention in attentions.items()}
        queries = torch.randn(1, QUESTIONS, SIZE)
        rounds: dict[str, list[float]] = {kind: [] for kind in KINDS}
        for _, (kind, attention) in product(range(5), attentions.items()):
            started = time.perf_counter()
            for _ in range(LOOK_UPS // QUESTIONS):
                attention.read(queries, memories[kind])
            rounds[kind].append(1000 * (time.perf_counter() - started))
        for kind, milliseconds in rounds.items():
            times[kind].append(median(milliseconds))
    return times


def report(args: argparse.Namespace, cells: Cells, times: dict[str, list[float]]) -> list[str]:
    """Return the report: accuracies, then look-up times."""
    lines = header(
        "Cloze questions",
        f"LSTMs and states of {SIZE}, {args.minutes:g} minutes of training on one core per cell; accuracy in %, mean "
        f"and range of {len(args.seeds)} seeds",
        f"documents of n facts, 3 tokens each; trained on n = 2 to {MAX_TRAIN_FACTS}; {PLACES} candidates (chance: "
        f"{100 / PLACES:.0f} %)",
    )
    rows = []
    for kind in KINDS:
        results = [cells[kind, seed] for seed in args.seeds]
        row = [kind, *(mean_and_range([result["accuracy"][str(count)] for result in results]) for count in TEST_FACTS)]
        row.append(f"{mean(result['steps'] for result in results):,.0f}")
        row += [mean_and_range([result["babi"] for result in results])] if args.babi is not None else []
        rows.append(row)
    columns = ["attention", *(f"n = {count:,}" for count in TEST_FACTS), "steps"]
    lines += table([*columns, *(["bAbI 1"] if args.babi is not None else [])], rows)
    lines += [
        "",
        f"Milliseconds of {LOOK_UPS:,} look-ups, {QUESTIONS} at a time, in a document of S states; one core:",
    ]
    columns = ["attention", *(f"S = {length:,}" for length in LENGTHS)]
    lines += ["", *table(columns, [[kind, *(f"{ms:.1f}" for ms in row)] for kind, row in times.items()])]
    return [*lines, "", "![accuracy against the number of facts, and time against length](cloze.png)"]


def mean_and_range(shares: list[float]) -> str:
    """Return ``mean (lowest–highest)`` in percent."""
    return f"{100 * mean(shares):.0f} ({100 * min(shares):.0f}–{100 * max(shares):.0f})"


def plot(args: argparse.Namespace, cells: Cells, times: dict[str, list[float]]) -> None:
    """Draw accuracy against facts, and look-up time against length."""
    figure = Figure(figsize=(12, 4.5), layout="constrained")
    left, right = figure.subplots(1, 2)
    for kind in KINDS:
        scores = [[100 * cells[kind, seed]["accuracy"][str(count)] for count in TEST_FACTS] for seed in args.seeds]
        (line,) = left.plot(TEST_FACTS, np.mean(scores, axis=0), marker=".", label=kind)
        lowest, highest = np.min(scores, axis=0), np.max(scores, axis=0)
        left.fill_between(TEST_FACTS, lowest, highest, color=line.get_color(), alpha=0.15)
        right.plot(LENGTHS, times[kind], marker=".", color=line.get_color())
    left.axvline(MAX_TRAIN_FACTS, color="0.7", linewidth=0.8)
    left.set(xscale="log", xlabel="facts in a document; trained up to the line", ylabel="accuracy, %")
    left.legend(frameon=False, fontsize=8)
    right.set(xscale="log", yscale="log", xlabel="source states", ylabel=f"ms for {LOOK_UPS:,} look-ups")
    figure.savefig(args.output / "cloze.png", dpi=130)


if __name__ == "__main__":
    main()
