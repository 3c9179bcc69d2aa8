"""Measure how many facts each attention can look up: the task of the covariance paper, after equal numbers of updates.

A recurrent encoder reads a document once. Each of its 16 questions is one look-up, answered by a softmax over all
candidates. Documents hold n facts, up to 50 in training and more in the test. With distractors, a document also holds
facts that no question asks about. Every attention of conf/attention gets a row. With --babi, the first bAbI task is
also trained; there, a question is answered from the part of the story before it. An interrupted benchmark continues
where it stopped. Its tables hold all finished cells, and it names the rows that were not run.

    python benchmarks/cloze.py --kinds none covariance gated_covariance "luong score=dot"
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from difflib import get_close_matches
from itertools import product
from pathlib import Path
from typing import NamedTuple

import torch
from cloze_kinds import kinds
from cloze_model import train_on_babi, train_on_facts
from cloze_report import UPDATES, Cells, write_report
from cloze_task import read_babi
from machine import commit
from report import argument_parser, writable


class Cell(NamedTuple):
    """One training: ``task`` is the number of distractors per fact, or ``babi``."""

    task: str
    kind: str
    seed: int
    updates: int

    def file(self, runs: Path) -> Path:
        """Return the file of the cell's results."""
        name = self.kind.replace(" ", ",")
        return runs / f"{self.updates}-updates" / f"{self.task}-{name}-{self.seed}.json"


def main() -> None:
    args = parse_arguments()
    rows = kinds()
    if unknown := [kind for kind in args.kinds if kind not in rows]:
        close = get_close_matches(unknown[0], rows, 1) or rows[:1]
        sys.exit(f"--kinds {unknown[0]!r}: unknown; did you mean {close[0]!r}?")
    missing = [cell for cell in wanted(args) if not finished(cell, args)]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(args.jobs, context) as pool:
        for line in pool.map(train_cell, missing, [args] * len(missing)):
            print(line, flush=True)
    write_report(args, rows, read_cells(args, rows))


def parse_arguments() -> argparse.Namespace:
    parser = argument_parser(__doc__, threads=None, runs="runs/cloze")
    parser.add_argument("--kinds", nargs="+", default=kinds(), help="rows to train; default: all")
    help_text = "numbers of facts in the test documents; default: %(default)s"
    parser.add_argument("--facts", type=int, nargs="+", default=[10, 50, 200, 1_000], help=help_text)
    help_text = "distractors for each fact, one table per number; default: %(default)s"
    parser.add_argument("--distractors", type=int, nargs="+", default=[0, 1], help=help_text)
    parser.add_argument("--updates", type=int, default=UPDATES, help="updates of each training; default: %(default)s")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3], help="default: %(default)s")
    parser.add_argument("--babi", type=existing, default=None, help="folder with qa1_train.txt.gz and qa1_test.txt.gz")
    help_text = "cells trained at the same time, with one thread each; default: %(default)s"
    parser.add_argument("--jobs", type=int, default=2, help=help_text)
    args = parser.parse_args()
    if min(*args.facts, *args.seeds, args.updates, args.jobs, 1) < 1 or min(args.distractors) < 0:
        parser.error("--facts, --seeds, --updates and --jobs must be at least 1, and --distractors at least 0")
    if (most := max(args.facts) * (1 + max(args.distractors))) > 3_600:
        parser.error(f"--facts and --distractors: {most:,} facts in a document; there are names for at most 3,600")
    return args


def existing(text: str) -> Path:
    """Return the folder of the bAbI task."""
    if not (Path(text) / "qa1_train.txt.gz").is_file():
        raise argparse.ArgumentTypeError(f"{text}: has no qa1_train.txt.gz; name the folder that holds it")
    return Path(text)


def wanted(args: argparse.Namespace) -> Iterator[Cell]:
    """Yield the cells to train, all kinds of one seed before the next seed."""
    tasks = [*map(str, args.distractors), *(["babi"] if args.babi is not None else [])]
    for seed, task, kind in product(args.seeds, tasks, args.kinds):
        yield Cell(task, kind, seed, args.updates)


def finished(cell: Cell, args: argparse.Namespace) -> bool:
    """Return whether the cell's file has an accuracy for every number of facts."""
    file = cell.file(args.runs)
    counts = ["babi"] if cell.task == "babi" else map(str, args.facts)
    return file.is_file() and set(counts) <= set(json.loads(file.read_text(encoding="utf-8"))["accuracy"])


def train_cell(cell: Cell, args: argparse.Namespace) -> str:
    """Train and test one attention with one seed, write the results, and return one line about them."""
    torch.set_num_threads(1)
    if cell.task == "babi":
        stories = read_babi(args.babi / "qa1_train.txt.gz")
        test = read_babi(args.babi / "qa1_test.txt.gz", stories)
        result = train_on_babi(cell.kind, cell.seed, cell.updates, stories, test)
    else:
        result = train_on_facts(cell.kind, cell.seed, cell.updates, int(cell.task), args.facts)
    file = cell.file(args.runs)
    file.parent.mkdir(parents=True, exist_ok=True)
    unfinished = writable(str(file.with_suffix(".part")))
    unfinished.write_text(json.dumps({**result, "commit": commit()}), encoding="utf-8")
    unfinished.replace(file)
    scores = {count: share if share is None else round(share, 3) for count, share in result["accuracy"].items()}
    return f"{cell.kind}, task {cell.task}, seed {cell.seed}: {scores}, {result['seconds']:.0f} s"


def read_cells(args: argparse.Namespace, rows: list[str]) -> Cells:
    """Return the results of all finished cells with these updates, of this call or an earlier one."""
    tasks = [*map(str, args.distractors), "babi"]
    files = {}
    for file in Cell("", "", 0, args.updates).file(args.runs).parent.glob("*.json"):
        task, _, rest = file.stem.partition("-")
        kind, _, seed = rest.rpartition("-")
        files[task, kind.replace(",", " "), int(seed)] = file
    order = sorted(
        (tasks.index(task), rows.index(kind), seed, task, kind)
        for task, kind, seed in files
        if task in tasks and kind in rows
    )
    return {
        (task, kind, seed): json.loads(files[task, kind, seed].read_text(encoding="utf-8"))
        for *_, seed, task, kind in order
    }


if __name__ == "__main__":
    main()
