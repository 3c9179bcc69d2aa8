"""The gap between memory attention and Bahdanau attention by training size, on Tatoeba German to English.

The training pairs are shuffled once, and each size takes the first ones. Both attentions train with the sizes of
+experiment=multi30k for the same number of updates; the epoch with the best validation BLEU is kept. The script writes
a table and a figure of the gap. An interrupted benchmark continues where it stopped; results/records keeps the scores
of finished runs. A run that has not finished says "not run". data/README.md says where the text comes from.

    python -m benchmarks.papers.paper_data --data data/tatoeba-de-en --precision bf16
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path

from matplotlib.figure import Figure

from benchmarks.report import argument_parser, header, save, table
from benchmarks.runs import Runs
from nmt.data.text_files import read_pairs
from nmt.files.atomic import write_lines

SIZES = (10_000, 30_000, 100_000, 164_652)
KINDS = ("bahdanau", "memory")
COLUMNS = (
    *("training pairs", *(f"BLEU, {kind}" for kind in KINDS), "gap", "gap of valid, greedy"),
    *(f"minutes, {kind}" for kind in KINDS),
)


def main() -> None:
    parser = argument_parser(__doc__, runs="runs/paper_data", data="data/tatoeba-de-en", report_only=True)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES), help="default: %(default)s")
    parser.add_argument("--updates", type=int, default=10_000, help="of each run; default: %(default)s")
    parser.add_argument("--precision", choices=("float32", "bf16"), default="bf16", help="default: %(default)s")
    parser.add_argument("--settings", nargs="*", default=[], help="settings of nmt-train that all runs get")
    args = parser.parse_args()
    runs = Runs.of(args)
    for size in [] if args.report_only else args.sizes:
        for kind in KINDS:
            words = [*settings(args, size), f"attention={kind}", *args.settings]
            runs.train(f"{kind}-{size}", words)
            write_report(args, runs)
    write_report(args, runs)


def settings(args: argparse.Namespace, size: int) -> list[str]:
    """Return the arguments of nmt-train for a training size, after writing its text."""
    folder = args.runs.resolve() / "text"
    if not (folder / f"{size}.en").is_file():
        write_text(args.data, folder, size)
    files = {"train": folder / f"{size}", "valid": args.data.resolve() / "valid", "test": args.data.resolve() / "test"}
    words = [
        f"data.{part}.{side}={stem}.{language}{'' if part == 'train' else '.gz'}"
        for part, stem in files.items()
        for side, language in (("src", "de"), ("tgt", "en"))
    ]
    limits = [f"training.max_steps={args.updates}", "training.max_epochs=null", "training.patience=null"]
    return ["+experiment=multi30k", *words, *limits, "training.decode_sentences=500", f"precision={args.precision}"]


def write_text(data: Path, folder: Path, size: int) -> None:
    """Write the first ``size`` training pairs of the shuffled text: the file is sorted by length."""
    pairs = read_pairs(data / "train.de.gz", data / "train.en.gz")
    random.Random(1).shuffle(pairs)
    folder.mkdir(parents=True, exist_ok=True)
    write_lines(folder / f"{size}.de", [pair.source for pair in pairs[:size]])
    write_lines(folder / f"{size}.en", [pair.target for pair in pairs[:size]])


def gap(scores: list[float]) -> float:
    """Return the score of the first of ``KINDS`` minus that of the second."""
    return scores[0] - scores[1]


def write_report(args: argparse.Namespace, runs: Runs) -> None:
    """Write the table and the figure of the finished runs."""
    rows, gaps = [], {}
    for size in args.sizes:
        runs_of_size = [runs.finished(f"{kind}-{size}") for kind in KINDS]
        finished = [run for run in runs_of_size if run is not None]
        cells = ["not run" if run is None else f"{run['test']['bleu']:.2f}" for run in runs_of_size]
        minutes = ["–" if run is None else f"{run['seconds'] / 60:.0f}" for run in runs_of_size]
        gap_cells = ["–", "–"]
        if len(finished) == len(KINDS):
            gaps[size] = gap([run["test"]["bleu"] for run in finished])
            gap_cells = [f"{gaps[size]:+.2f}", f"{gap([run['metrics']['valid_bleu'] for run in finished]):+.2f}"]
        rows.append([f"{size:,}", *cells, *gap_cells, *minutes])
    facts = [f"one seed, {args.updates:,} updates each, {args.precision}, lower-cased, beam 5; gap: Bahdanau − memory"]
    facts.append("gap of valid: after the last epoch, 500 sentences")
    facts.append(runs.commits())
    lines = [*header("Gap between Bahdanau and memory attention by training size", *facts), *table(COLUMNS, rows)]
    save(args.output / "paper_data.md", [*lines, "", "![gap by training size](paper_data.png)"], show=False)
    figure = Figure(figsize=(5, 3.2), layout="constrained")
    axes = figure.add_subplot()
    if gaps:
        axes.semilogx(list(gaps), list(gaps.values()), marker="o")
        axes.set_xticks(list(gaps), [f"{size:,}" for size in gaps])
        axes.minorticks_off()
    axes.axhline(0, color="grey", linewidth=0.8)
    axes.set(xlabel="training pairs", ylabel="BLEU, Bahdanau − memory, K = 32")
    figure.savefig(args.output / "paper_data.png", dpi=120)


if __name__ == "__main__":
    main()
