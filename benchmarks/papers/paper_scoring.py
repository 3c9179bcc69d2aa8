"""Compare score functions of memory attention, as Britz et al. (2017): sigmoid or softmax, for write and read.

Each of the four combinations trains +experiment=paper/scoring on the generated corpus with three seeds until it stops
improving. The script writes a table, the curves of the validation loss and one alignment per combination. An
interrupted benchmark continues where it stopped; a run that has not finished says "not run".

    python -m benchmarks.papers.paper_scoring --threads 1
"""

from __future__ import annotations

import argparse
import shutil
from itertools import product
from pathlib import Path

from matplotlib.figure import Figure

from benchmarks.report import argument_parser, header, save, table, with_deviation
from benchmarks.runs import Runs

SCORES = ("sigmoid", "softmax")
COMBINATIONS = tuple(product(SCORES, SCORES))  # write, read
COLUMNS = ("write / read", "seeds", "valid loss", "test BLEU", "AER", "AER of each seed", "epochs", "training, min")


def main() -> None:
    parser = argument_parser(__doc__, runs="runs/paper_scoring", seeds=[1, 2, 3], report_only=True)
    parser.add_argument("--settings", nargs="*", default=[], help="settings of nmt-train that all runs get")
    args = parser.parse_args()
    runs = Runs.of(args, curves=("valid_loss",))
    for seed in [] if args.report_only else args.seeds:
        for write, read in COMBINATIONS:
            words = [f"attention.write_score={write}", f"attention.read_score={read}", f"seed={seed}", *args.settings]
            runs.train(run_name(write, read, seed), ["+experiment=paper/scoring", *words])
            write_report(args, runs)
    write_report(args, runs)


def run_name(write: str, read: str, seed: int) -> str:
    return f"{write}-{read}-s{seed}"


def write_report(args: argparse.Namespace, runs: Runs) -> None:
    """Write the table of the finished runs, their curves and an alignment of each combination."""
    rows, curves = [], {}
    for write, read in COMBINATIONS:
        names = [run_name(write, read, seed) for seed in args.seeds]
        finished = {name: run for name in names if (run := runs.finished(name)) is not None}
        if not finished:
            rows.append([f"{write} / {read}", 0, *["not run"] * (len(COLUMNS) - 2)])
            continue
        losses = [[loss for _, loss in run["curves"]["valid_loss"]] for run in finished.values()]
        curves[f"{write} / {read}"] = losses
        tests = [run["test"] for run in finished.values()]
        cells = [
            with_deviation([min(values) for values in losses], ".3f"),
            with_deviation([test["bleu"] for test in tests], ".1f"),
        ]
        cells += [with_deviation([test["aer"] for test in tests], ".3f")]
        cells += [", ".join(f"{test['aer']:.3f}" for test in tests)]
        cells += [
            with_deviation([summary[key] / scale for summary in finished.values()], ".0f") for key, scale in TIMES
        ]
        rows.append([f"{write} / {read}", f"{len(finished)} of {len(names)}", *cells])
        pictures = sorted((args.runs / next(iter(finished)) / "heatmaps").glob("*.png"))
        if pictures:
            shutil.copy(pictures[len(pictures) // 2], args.output / f"paper_scoring-{write}-{read}.png")
    facts = "mean ± standard deviation over seeds; valid loss of the best epoch"
    lines = header("Score functions of memory attention", facts, runs.commits())
    lines += [*table(COLUMNS, rows), "", "![validation loss](paper_scoring.png)"]
    save(args.output / "paper_scoring.md", lines, show=False)
    plot(curves, args.output / "paper_scoring.png")


TIMES = (("epochs", 1), ("seconds", 60))


def plot(curves: dict[str, list[list[float]]], file: Path) -> None:
    """Draw the validation loss of every run after each epoch, one colour per combination."""
    figure = Figure(figsize=(6, 3.5), layout="constrained")
    axes = figure.add_subplot()
    for index, (combination, runs) in enumerate(curves.items()):
        for number, losses in enumerate(runs):
            label = None if number else combination
            axes.plot(range(1, len(losses) + 1), losses, color=f"C{index}", label=label)
    axes.set(xlabel="epoch", ylabel="loss of valid, nats per piece")
    axes.grid(alpha=0.3)
    if axes.lines:
        axes.set_yscale("log")
        axes.legend()
    figure.savefig(file, dpi=120)


if __name__ == "__main__":
    main()
