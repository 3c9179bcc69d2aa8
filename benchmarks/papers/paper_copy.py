"""Reproduce the toy copy of Britz et al. (2017), arXiv 1707.00110: BLEU by length and attention, and decoding time.

Models copy random sequences of up to L words from a vocabulary of 20: without attention, with Bahdanau attention, and
with memory attention of K slots, with and without position encodings. --size small trains
+experiment=paper/copy_small, --size full the paper's sizes, +experiment=paper/copy. The script writes its tables after
each cell, and an interrupted benchmark continues where it stopped. A cell without a finished run says "not run".

    python -m benchmarks.papers.paper_copy --size small --lengths 50
    python -m benchmarks.papers.paper_copy --minutes 90 --jobs 2 --threads 1   start no training that would end later
    python -m benchmarks.papers.paper_copy --report-only                    write the table of the finished runs
    python -m benchmarks.papers.paper_copy --decoding-only                  time with random weights and equal steps
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib import colormaps
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from benchmarks.report import argument_parser, header, save, table, with_quartiles
from benchmarks.runs import Runs
from benchmarks.speed.decode import decode_steps, in_turns
from nmt.config.compose import train_config
from nmt.data.copy import WORDS
from nmt.inference.model_folder import TrainedModel
from nmt.inference.translator import Translator
from nmt.model.build import build_model
from nmt.settings.build import plain
from nmt.text.specials import EOS
from nmt.text.tokenizer import Tokenizer

LENGTHS = (50, 10, 100, 200)  # in the order in which they are trained
SLOTS = (1, 4, 16, 32, 64)
FIRST = ("bahdanau", "memory, K=32", "memory, K=1", "none", "memory, K=4", "memory, K=64")
KINDS = {
    "none": ["attention=none"],
    "bahdanau": ["attention=bahdanau"],
    **{f"memory, K={slots}": ["attention=memory", f"attention.slots={slots}"] for slots in SLOTS},
    **{
        f"memory, K={slots}, no encodings": [
            "attention=memory",
            f"attention.slots={slots}",
            "attention.position_encoding=false",
        ]
        for slots in SLOTS
    },
}
TIMED = ("bahdanau", "memory, K=32", "memory, K=64")
NOT_RUN = "not run"
SMOOTHED = 15  # logged losses in a running mean; batches of short and long sequences differ much


def main() -> None:
    parser = argument_parser(__doc__, runs="runs/paper_copy", rounds=5, report_only=True)
    parser.add_argument("--size", choices=("small", "full"), default="small", help="default: %(default)s")
    parser.add_argument("--lengths", type=int, nargs="+", choices=LENGTHS, default=LENGTHS, help="default: all")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS), help="default: all")
    parser.add_argument("--updates", type=int, help="of each run, with separate results; default: as --size says")
    parser.add_argument("--jobs", type=int, default=1, help="runs at the same time; default: %(default)s")
    parser.add_argument("--minutes", type=float, help="start no training that would end later than this; default: none")
    parser.add_argument("--settings", nargs="*", default=[], help="settings of nmt-train that all cells get")
    parser.add_argument("--name", help="of the results files; default: paper_copy_SIZE, and _UPDATES if they are given")
    parser.add_argument("--decoding-only", action="store_true", help="measure the decoding time only")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    if args.decoding_only:
        save(args.output / "paper_copy_decoding.md", decoding_times(args))
        return
    runs = Runs.of(args, curves=("train_loss",))
    if not args.report_only:
        train_cells(args, runs)
    write_report(args, runs)


def train_cells(args: argparse.Namespace, runs: Runs) -> None:
    """Train all cells, --jobs at the same time; a cell that --minutes leaves no time for is not run."""
    started, longest = time.monotonic(), 0.0

    def run(cell: tuple[int, str]) -> None:
        nonlocal longest
        name, begun = run_name(args, *cell), time.monotonic()
        if args.minutes is not None and begun - started + longest > 60 * args.minutes:
            print(f"{name}: not run, because it would end after {args.minutes:g} minutes", flush=True)
            return
        runs.train(name, settings(args, *cell))
        longest = max(longest, time.monotonic() - begun)

    with ThreadPoolExecutor(args.jobs) as pool:
        for _ in pool.map(run, cells(args)):
            write_report(args, runs)


def cells(args: argparse.Namespace) -> Iterator[tuple[int, str]]:
    """Yield length and kind of each cell, the most telling ones of a length first."""
    for length in args.lengths:
        for kind in sorted(args.kinds, key=lambda kind: FIRST.index(kind) if kind in FIRST else len(FIRST)):
            yield length, kind


def run_name(args: argparse.Namespace, length: int, kind: str) -> str:
    """Return the folder name of a cell, such as ``small-50-memory-K1-no-encodings``."""
    size = args.size if args.updates is None else f"{args.size}-{args.updates}"
    return f"{size}-{length}-{kind.replace(',', '').replace('=', '').replace(' ', '-')}"


def settings(args: argparse.Namespace, length: int, kind: str) -> list[str]:
    """Return the arguments of nmt-train for a cell."""
    experiment = "paper/copy_small" if args.size == "small" else "paper/copy"
    updates = [] if args.updates is None else [f"training.max_steps={args.updates}"]
    return [f"+experiment={experiment}", f"data.max_words={length}", *KINDS[kind], *updates, *args.settings]


def write_report(args: argparse.Namespace, runs: Runs) -> None:
    """Write tables of BLEU, decoding and training time, and the learning curves."""
    bleu: list[list[str]] = []
    for kind in args.kinds:
        row = [kind]
        for length in sorted(args.lengths):
            summary = runs.finished(run_name(args, length, kind))
            row.append(NOT_RUN if summary is None else f"{summary['test']['bleu']:.2f}")
        bleu.append(row)
    columns = ["attention", *(f"L = {length}" for length in sorted(args.lengths))]
    lines = header(f"Toy copy, {args.size}", *facts(args))
    lines += ["BLEU of the test set with beam 10:", "", *table(columns, bleu), ""]
    lines += ["Cost of each run:", "", *table(*costs(args, runs)), ""]
    name = args.name or f"paper_copy_{args.size}" + ("" if args.updates is None else f"_{args.updates}")
    save(args.output / f"{name}.md", [*lines, f"![learning curves]({name}.png)"], show=False)
    plot_curves(args, runs, args.output / f"{name}.png")


def facts(args: argparse.Namespace) -> list[str]:
    """Return the size of the experiment as read from the configuration."""
    config = train_config(settings(args, LENGTHS[0], "bahdanau"))
    data, training, batches = plain(config.data), config.training, config.batches
    model = f"{config.encoder['layers']} layers, encoder {config.encoder['hidden_size']}, both directions"
    return [
        f"{data['train_pairs']:,} training sequences of 1 to L words, vocabulary {data['vocabulary']}, one seed",
        f"{model}; optimizer.lr={config.optimizer['lr']:g}; {training.max_steps:,} updates of up to "
        + (f"{batches.max_sentences} sentences" if batches.max_sentences else f"{batches.max_tokens:,} pieces"),
    ]


def finished_runs(args: argparse.Namespace, runs: Runs) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """Yield length, kind and record of each finished run, the shortest sequences first."""
    for length in sorted(args.lengths):
        for kind in args.kinds:
            if (run := runs.finished(run_name(args, length, kind))) is not None:
                yield length, kind, run


def costs(args: argparse.Namespace, runs: Runs) -> tuple[tuple[str, ...], list[list[str]]]:
    """Return columns and rows: accuracy, updates, minutes and commit of each finished run."""
    rows = []
    for length, kind, run in finished_runs(args, runs):
        accuracy = run["metrics"].get("valid_accuracy", float("nan"))
        cost = [f"{run['updates']:,}", f"{run['seconds'] / 60:.1f}", run["toolkit"]["commit"][:7]]
        rows.append([f"L = {length}, {kind}", f"{accuracy:.4f}", *cost])
    return ("cell", "accuracy of valid, teacher-forced", "updates", "training, minutes", "commit"), rows


def plot_curves(args: argparse.Namespace, runs: Runs, file: Path) -> None:
    """Draw the training loss of each run, a running mean, against its updates, one panel per length."""
    curves: dict[int, dict[str, list[list[float]]]] = {}
    for length, kind, run in finished_runs(args, runs):
        curves.setdefault(length, {})[kind] = run["curves"]["train_loss"]
    if not curves:
        return
    figure = Figure(figsize=(3.6 * len(curves) + 2.4, 3.8), layout="constrained")
    panels = figure.subplots(1, len(curves), sharey=True, squeeze=False).flat
    for axes, (length, lines) in zip(panels, curves.items(), strict=True):
        for kind, points in lines.items():
            updates, loss = zip(*points, strict=True)
            window = np.ones(min(SMOOTHED, len(loss)))
            mean = np.convolve(loss, window, "same") / np.convolve(np.ones(len(loss)), window, "same")
            axes.plot(updates, mean, linewidth=1.2, label=kind, **line_style(kind))
        axes.set_title(f"L = {length}")
        axes.set_xlabel("updates")
        axes.xaxis.set_major_locator(MaxNLocator(5))
        axes.grid(alpha=0.3)
    panels[0].set_ylabel(f"training loss, nats, mean of {SMOOTHED} logged values")
    handles = {line.get_label(): line for axes in panels for line in axes.lines}
    shown_lines = [handles[kind] for kind in KINDS if kind in handles]
    figure.legend(handles=shown_lines, loc="outside right center", frameon=False, fontsize="small")
    figure.savefig(file, dpi=120)


def line_style(kind: str) -> dict[str, Any]:
    """Return a shade for each K, dashes without position encodings, and grey tones for other attentions."""
    if not kind.startswith("memory"):
        return {"color": {"none": "0.6", "bahdanau": "black"}[kind]}
    slots = int(kind.split("K=")[1].split(",")[0])
    shade = 0.9 - 0.85 * SLOTS.index(slots) / (len(SLOTS) - 1)
    return {"color": colormaps["viridis"](shade), "linestyle": "--" if "no encodings" in kind else "-"}


def decoding_times(args: argparse.Namespace) -> list[str]:
    """Return a report: seconds for sequences of exactly L pieces, decoded in L steps, with random weights."""
    random, rows = torch.Generator().manual_seed(1), []
    count, batch = 32, 32
    for length in sorted(LENGTHS):
        engines = {kind: random_engine(args, kind, length) for kind in TIMED}
        lines = torch.randint(260, 280, (count, length - 1), generator=random).tolist()
        lines = [[*line, EOS] for line in lines]
        work = partial(decode_steps, lines=lines, beam=10, batch=batch, steps=length)
        seconds = in_turns(engines, args.rounds, work)
        for kind, times in seconds.items():
            ratio = [first / time for first, time in zip(seconds[TIMED[0]], times, strict=True)]
            per_thousand = [1000 / count * time for time in times]
            rows.append([length, kind, with_quartiles(per_thousand, ".1f"), with_quartiles(ratio)])
            print(rows[-1], flush=True)
    size = f"sizes of --size {args.size}, random weights, beam 10, batches of {batch}, {args.threads} threads, torch"
    lines_of_head = header("Decoding time of the toy copy", size, f"{args.rounds} rounds in turns; median (quartiles)")
    columns = ("L", "attention", "s per 1,000 sequences", "times as fast as Bahdanau")
    return [*lines_of_head, *table(columns, rows)]


def random_engine(args: argparse.Namespace, kind: str, length: int) -> Any:
    """Return the torch engine of an untrained model of the cell."""
    config = train_config(settings(args, length, kind))
    torch.manual_seed(1)
    pieces = Tokenizer.train([" ".join(WORDS)] * 20, vocab_size=config.tokenizer.vocab_size)
    vocabulary = len(pieces)
    model = build_model(
        config, source_vocabulary=vocabulary, target_vocabulary=vocabulary, longest_source=length + 1
    ).eval()
    return Translator(
        TrainedModel(model=model, source=pieces, target=pieces, config=plain(config), longest_source=length + 1)
    ).loaded_model.engine(trace=False)


if __name__ == "__main__":
    main()
