"""Measure how many facts each attention can look up: the task of the covariance paper, after equal numbers of updates.

A recurrent encoder reads a document once. Each of its 16 questions is one look-up, answered by a softmax over all
candidates. Documents hold n facts, up to 50 in training and more in the test. With distractors, a document also holds
facts that no question asks about. Every attention of conf/attention gets a row.

With --data, the first bAbI task is trained instead, where a question is answered from the part of the story before it.
If you start the benchmark again, it continues: the CSV file of the results keeps every finished cell. To train cells
again, remove their lines. The tables hold all finished cells, and the report names the rows that were not run.

    python -m benchmarks.papers.cloze --kinds none covariance gated_covariance "luong score=dot"
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from difflib import get_close_matches
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import torch

from benchmarks.machine import commit
from benchmarks.papers.cloze_kinds import kinds
from benchmarks.papers.cloze_model import train_on_facts, train_on_stories
from benchmarks.papers.cloze_report import TITLES, UPDATES, Cells, read_csv, report_file, write_csv, write_report
from benchmarks.papers.cloze_task import Stories, read_babi
from benchmarks.report import argument_parser
from nmt.errors import UserError

BABI = "qa1_train.txt.gz"


class Cell(NamedTuple):
    """One training: ``task`` is the number of distractors per fact, or a task of ``TITLES``."""

    task: str
    kind: str
    seed: int


def main() -> None:
    args = parse_arguments()
    rows = kinds()
    if unknown := [kind for kind in args.kinds if kind not in rows]:
        close = get_close_matches(unknown[0], rows, 1) or rows[:1]
        sys.exit(f"--kinds {unknown[0]!r}: unknown; did you mean {close[0]!r}?")
    file = report_file(args, "csv")
    cells: Cells = read_csv(file)
    missing = [cell for cell in wanted(args) if not finished(cell, cells, args)]
    with ProcessPoolExecutor(args.jobs, multiprocessing.get_context("spawn")) as pool:
        running = {pool.submit(train_cell, cell, args): cell for cell in missing}
        for training in as_completed(running):
            cell = running[training]
            try:
                result = training.result()
            except UserError as error:
                pool.shutdown(cancel_futures=True)
                sys.exit(str(error))
            cells[cell] = {**result, "commit": commit()}
            write_csv(cells, args.updates, file)
            scores = {count: share if share is None else round(share, 3) for count, share in result["accuracy"].items()}
            print(f"{cell.kind}, task {cell.task}, seed {cell.seed}: {scores}, {result['seconds']:.0f} s", flush=True)
    write_report(args, rows, in_order(cells, rows, args))


def parse_arguments() -> argparse.Namespace:
    parser = argument_parser(__doc__, threads=None, seeds=[1, 2, 3])
    parser.add_argument("--kinds", nargs="+", default=kinds(), help="rows to train; default: all")
    help_text = "numbers of facts in the test documents; default: %(default)s"
    parser.add_argument("--facts", type=int, nargs="+", default=[10, 50, 200, 1_000], help=help_text)
    help_text = "distractors for each fact, one table per number; default: 0 1, or none with --data"
    parser.add_argument("--distractors", type=int, nargs="+", default=None, help=help_text)
    parser.add_argument("--updates", type=int, default=UPDATES, help="updates of each training; default: %(default)s")
    parser.add_argument("--data", type=existing, default=None, help="folder with qa1_train.txt.gz and qa1_test.txt.gz")
    help_text = "cells trained at the same time, with one thread each; default: %(default)s"
    parser.add_argument("--jobs", type=int, default=2, help=help_text)
    args = parser.parse_args()
    if args.distractors is None:
        args.distractors = [] if args.data else [0, 1]
    if min(*args.facts, *args.seeds, args.updates, args.jobs, 1) < 1 or min(args.distractors, default=0) < 0:
        parser.error("--facts, --seeds, --updates and --jobs must be at least 1, and --distractors at least 0")
    if (most := max(args.facts) * (1 + max(args.distractors, default=0))) > 3_600:
        parser.error(f"--facts and --distractors: {most:,} facts in a document; there are names for at most 3,600")
    return args


def existing(text: str) -> Path:
    """Return the folder of a data set."""
    folder = Path(text)
    if not (folder / BABI).is_file():
        raise argparse.ArgumentTypeError(f"{text}: has no {BABI}; name the folder that does")
    return folder


def read_data(folder: Path) -> tuple[Stories, Stories]:
    """Return training and test set. The task has no validation set."""
    training = read_babi(folder / BABI)
    return training, read_babi(folder / "qa1_test.txt.gz", training)


def wanted(args: argparse.Namespace) -> Iterator[Cell]:
    """Yield the cells to train, all kinds of one seed before the next seed."""
    tasks = [*map(str, args.distractors), *(["babi"] if args.data is not None else [])]
    for seed, task, kind in product(args.seeds, tasks, args.kinds):
        yield Cell(task, kind, seed)


def finished(cell: Cell, cells: Cells, args: argparse.Namespace) -> bool:
    """Return whether the cell has an accuracy for every number of facts."""
    counts = {cell.task} if cell.task in TITLES else set(map(str, args.facts))
    return cell in cells and counts <= set(cells[cell]["accuracy"])


def train_cell(cell: Cell, args: argparse.Namespace) -> dict[str, Any]:
    """Train and test one attention with one seed, and return the results."""
    torch.set_num_threads(1)
    if cell.task in TITLES:
        return train_on_stories(cell, args.updates, *read_data(args.data))
    return train_on_facts(cell.kind, cell.seed, args.updates, int(cell.task), args.facts)


def in_order(cells: Cells, rows: list[str], args: argparse.Namespace) -> Cells:
    """Return the cells of this report: by task, row and seed."""
    tasks = [*map(str, args.distractors), *TITLES]
    known = [Cell(*cell) for cell in cells if cell[0] in tasks and cell[1] in rows]
    known.sort(key=lambda cell: (tasks.index(cell.task), rows.index(cell.kind), cell.seed))
    return {cell: cells[cell] for cell in known}


if __name__ == "__main__":
    main()
