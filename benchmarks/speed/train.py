"""Compare the training speed of models: target pieces per second of full updates.

An update covers everything: make the batch, forward, loss, backward, clipping, Adam. Models have the sizes of the
reference; Transformers have as many layers and units. Pairs are as long as image captions, 128 per batch, and all
models take turns. "padding" is the share of padded positions on both sides, "loading" the share of time spent on making
batches.

    python -m benchmarks.speed.train
    python -m benchmarks.speed.train --pieces train.sp.en train.sp.de  lengths of these files, not random ones
    python -m benchmarks.speed.train --precision float32 bf16
    python -m benchmarks.speed.train --model 'luong general' 'transformer, linear' --output out.md

With --peer, another toolkit trains before each round and after the last one. Give one command for bahdanau and one for
luong. It prints JSON lines with its own number of target tokens per second, tps_logged.

    python -m benchmarks.speed.train --peer 'bahdanau=bash other.sh mlp' 'luong=bash other.sh general' --peer-name Other
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
from pathlib import Path
from statistics import median

import torch

from benchmarks.report import argument_parser, header, quartiles, save, table
from benchmarks.speed.train_run import MODELS, TRANSFORMERS, Lengths, Run, Timing, pair_lengths
from nmt.kernels.process import keep_freed_memory
from nmt.text.batches import BatchPlan

COLUMNS = (
    *("model", "pieces per second (quartiles)", "s per update", "padding", "loading"),
    "compared with the peer",
)


def main() -> None:
    args = parse_arguments()
    torch.set_num_threads(args.threads)
    keep_freed_memory()  # as nmt-train does
    torch.set_flush_denormal(True)  # as nmt-train does
    corpus = Lengths(*pair_lengths(args.pieces))
    sampler = list(BatchPlan(*corpus, max_tokens=1 << 30, max_sentences=args.sentences).batches(0))
    runs = {}
    for precision, name in itertools.product(args.precision, args.model):
        label = name if precision == "float32" else f"{name}, {precision}"
        runs[label] = Run(name, precision, corpus, sampler)
    commands = dict(text.split("=", 1) for text in args.peer)
    timings: dict[str, list[Timing]] = {label: [] for label in runs}
    peers: dict[str, list[float]] = {attention: [] for attention in commands}
    for index in range(args.rounds + 1):
        for attention, command in commands.items():
            peers[attention] += peer_rates(command)
        for label, run in runs.items():
            updates = [run.update() for _ in range(args.updates if index else 2)]
            timings[label] += [Timing(*map(sum, zip(*updates, strict=True)))] if index else []  # round 0: warm-up
    rows = [
        [f"{args.peer_name}, {name}, input feeding", rate_text(rates), *[""] * 3, 1] for name, rates in peers.items()
    ]
    rows += [model_row(label, timings[label], peers, args) for label in runs]
    conditions = (
        f"{args.sentences} sentences per batch, {args.threads} threads, {args.rounds} rounds of {args.updates} updates "
        "in turns; real target pieces, including </s>"
    )
    save(args.output, [*header("Training", conditions), *table(COLUMNS, rows)])


def parse_arguments() -> argparse.Namespace:
    parser = argument_parser(__doc__, "train.md", rounds=4)
    lstms = [name for name in MODELS if name not in TRANSFORMERS]
    parser.add_argument("--model", nargs="+", choices=MODELS, default=lstms, help="default: all LSTMs")
    choices = ["float32", "bf16"]
    parser.add_argument("--precision", nargs="+", choices=choices, default=choices[:1], help="default: float32")
    parser.add_argument("--pieces", type=Path, nargs=2, help="source and target text as pieces, for their lengths")
    parser.add_argument("--updates", type=int, default=6, help="updates of each model per round; default: %(default)s")
    parser.add_argument("--sentences", type=int, default=128, help="sentences per batch; default: %(default)s")
    parser.add_argument("--peer", nargs="+", default=[], metavar="ATTENTION=COMMAND", help="another toolkit")
    parser.add_argument("--peer-name", default="the peer", help="name of the other toolkit; default: %(default)s")
    return parser.parse_args()


def model_row(label: str, timings: list[Timing], peers: dict[str, list[float]], args: argparse.Namespace) -> list[str]:
    """Return the table row of one model."""
    rates = [timing.pieces / timing.seconds for timing in timings]
    mean = Timing(*(sum(column) / len(timings) / args.updates for column in zip(*timings, strict=True)))
    peer = peers.get(label.split()[0].rstrip(","))
    return [
        label,
        rate_text(rates),
        f"{mean.seconds:.3f}",
        f"{100 * (1 - mean.real / mean.padded):.1f} %",
        f"{100 * mean.loading / mean.seconds:.1f} %",
        f"{median(rates) / median(peer):.2f}×" if peer else "–",
    ]


def rate_text(rates: list[float]) -> str:
    low, middle, high = quartiles(rates)
    return f"{middle:,.0f} ({low:,.0f}–{high:,.0f})"


def peer_rates(command: str) -> list[float]:
    """Return the target tokens per second of each interval that the command reports, without the first (warm-up)."""
    result = subprocess.run(command, shell=True, check=True, capture_output=True, text=True)
    records = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
    rates = [float(record["tps_logged"]) for record in records if "tps_logged" in record]
    if len(rates) < 2:
        sys.exit(f"{command}: reported fewer than two rates (tps_logged)\n{result.stderr[-500:]}")
    return rates[1:]


if __name__ == "__main__":
    main()
