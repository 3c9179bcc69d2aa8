"""Complete occluded sequences: softmax against linear self-attention, quality and speed of generation.

As in Katharopoulos et al. (2020), §4.2, the second half of a sequence is hidden, and a network with causal
self-attention completes it symbol by symbol. It has to remember the first half: softmax in a cache that grows, linear
in a matrix of constant size. Three measurements:

- copy: N / 2 random symbols, followed by the same symbols; the share of hidden symbols that are right
- digits: the 1,797 images of 8 × 8 pixels and 17 greys in scikit-learn, which must be installed; bits per hidden pixel
- speed: symbols per CPU second of one thread, for whole sequences of N symbols, with random weights

Every result is one line of results/records/completion.jsonl, and a later call measures only what is missing.

    python -m benchmarks.papers.completion
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from statistics import mean, median
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from benchmarks.measurements import Measurements, Record
from benchmarks.papers.completion_network import (
    BATCH,
    KINDS,
    LAYERS,
    SIZE,
    complete,
    drawn,
    loss_of,
    most_likely,
    new_network,
    train,
)
from benchmarks.papers.digits import draw_rows
from benchmarks.report import argument_parser, header, save, table, with_range
from nmt.kernels.process import keep_freed_memory

SYMBOLS, COPIES = 16, 64  # of the copy task: different symbols, and sequences of a test
GREYS, PIXELS, TRAINING_IMAGES, SHOWN = 17, 64, 1500, 8  # the other 297 images are the test
LENGTHS = (64, 256, 1024, 4096)  # of the speed
GENERATED = 8  # sequences at once


def main() -> None:
    parser = argument_parser(__doc__, "completion.md", threads=None, rounds=3, seeds=[1, 2, 3])
    parser.add_argument(
        "--length", type=int, nargs="+", default=[16, 64, 256], help="N of copies; default: %(default)s"
    )
    parser.add_argument("--updates", type=int, default=1000, help="of training; default: %(default)s")
    args = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()  # else the system clears the pages of a growing cache again and again
    records = Measurements(args.output.parent / "records" / "completion.jsonl")
    for number in range(args.rounds):
        for kind in KINDS:
            records.measure(speed, task="speed", kind=kind, round=number)
    for seed in args.seeds:
        for kind in KINDS:
            for length in args.length:
                records.measure(copy, task="copy", kind=kind, length=length, seed=seed, updates=args.updates)
            records.measure(digits, task="digits", kind=kind, seed=seed, updates=args.updates)
    report(records, args)


def copy(kind: str, length: int, seed: int, updates: int) -> Record:
    """Train on random sequences followed by a copy, and complete others."""
    half = length // 2

    def batches(size: int) -> Iterator[Tensor]:
        while True:
            yield torch.randint(SYMBOLS, (size, half)).repeat(1, 2)

    network = new_network(kind, SYMBOLS, seed)
    train(network, batches(BATCH), updates, half)
    tests = next(batches(COPIES))
    completed = complete(network, tests[:, :half], half, most_likely)
    return {"right": (completed == tests[:, half:]).float().mean().item()}


def digits(kind: str, seed: int, updates: int) -> Record | None:
    """Train on the upper and lower halves of images of digits, and complete the lower halves of others."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        print("digits: not measured, because scikit-learn is missing; pip install scikit-learn")
        return None
    images = torch.from_numpy(load_digits().data).long()
    images = images[torch.randperm(len(images), generator=torch.Generator().manual_seed(0))]
    training, tests = images[:TRAINING_IMAGES], images[TRAINING_IMAGES:]
    half = PIXELS // 2

    def batches() -> Iterator[Tensor]:
        while True:
            yield training[torch.randint(len(training), (BATCH,))]

    network = new_network(kind, GREYS, seed)
    train(network, batches(), updates, half)
    with torch.inference_mode():
        bits = loss_of(network, tests, half).item() / math.log(2)
    counts = torch.nn.functional.one_hot(training[:, half:], GREYS).sum(0) + 1.0
    shares = (counts / counts.sum(1, keepdim=True)).expand(len(tests), -1, -1)
    baseline = -shares.gather(2, tests[:, half:, None]).log2().mean().item()
    shown = tests[:SHOWN]
    hidden = complete(network, shown[:, :half], half, drawn)
    return {"bits": bits, "baseline": baseline, "shown": shown.tolist(), "drawn": hidden.tolist()}


def speed(kind: str, round: int) -> Record:
    """Generate sequences with random weights; CPU seconds until each length is reached."""
    network = new_network(kind, SYMBOLS, round)
    seconds = {}
    with torch.inference_mode():
        started = time.process_time()
        symbols = network.generate(torch.zeros(GENERATED, 1, dtype=torch.int64), most_likely)
        for length, _ in enumerate(islice(symbols, max(LENGTHS)), 1):
            if length in LENGTHS:
                seconds[str(length)] = time.process_time() - started
    return {"seconds": seconds}


def report(records: Measurements, args: argparse.Namespace) -> None:
    """Write the tables and figures of the finished measurements."""
    lines = header(
        "Completion of occluded sequences",
        f"{LAYERS} layers of {SIZE}, {args.updates:,} updates of {BATCH} sequences; mean (range) over seeds",
        f"copies: {SYMBOLS} symbols, chance is {1 / SYMBOLS:.3f}",
        f"speed: {GENERATED} sequences at once, one thread, median of {args.rounds} rounds in turns",
        f"measured at {records.commits()}",
    )
    trained = {"updates": args.updates}
    right = {
        kind: [values(records, "right", task="copy", kind=kind, length=n, **trained) for n in args.length]
        for kind in KINDS
    }
    rates = {kind: [rate(records, kind, length) for length in LENGTHS] for kind in KINDS}
    rows = []
    for kind in KINDS:
        cells = [*right[kind], values(records, "bits", task="digits", kind=kind, **trained)]
        speeds = [f"{value:,.0f}" for value in rates[kind]]
        rows.append([kind, *(with_range(cell) if cell else "not run" for cell in cells), *speeds])
    shown = records.find(task="digits", seed=args.seeds[0], **trained)
    if shown:
        baseline = f"{shown[0]['baseline']:.3f}"
        rows.append(["frequencies of each pixel", *["–"] * len(args.length), baseline, *["–"] * len(LENGTHS)])
        draw_digits(shown, args.output.with_name("completion_digits.png"))
    columns = [f"copies, right, N = {n}" for n in args.length] + ["digits, bits per hidden pixel"]
    columns += [f"symbols per CPU second, N = {n:,}" for n in LENGTHS]
    lines += [*table(("self-attention", *columns), rows), ""]
    lines += ["![quality and speed against N](completion.png)", "", "![completed digits](completion_digits.png)"]
    save(args.output, lines, show=False)
    plot(right, rates, args.length, args.output.with_suffix(".png"))


def values(records: Measurements, name: str, **cell: Any) -> list[float]:
    """Return one result of each record of these cells."""
    return [record[name] for record in records.find(**cell)]


def rate(records: Measurements, kind: str, length: int) -> float:
    """Return the median of symbols per second over the rounds."""
    rounds = records.find(task="speed", kind=kind)
    return GENERATED * length / median(record["seconds"][str(length)] for record in rounds)


def plot(right: dict[str, list[list[float]]], rates: dict[str, list[float]], lengths: list[int], file: Path) -> None:
    """Draw quality and speed against N."""
    figure = Figure(figsize=(10, 4), layout="constrained")
    left, fast = figure.subplots(1, 2)
    for kind in KINDS:
        points = [(n, mean(cell)) for n, cell in zip(lengths, right[kind], strict=True) if cell]
        left.plot(*zip(*points, strict=True), marker=".", label=kind)
        fast.plot(LENGTHS, rates[kind], marker=".", label=kind)
    left.set(xlabel="N", ylabel="copies: share of right symbols", ylim=(0, 1.02), xscale="log")
    left.set_xticks(lengths, labels=map(str, lengths), minor=False)
    fast.set(xlabel="N", ylabel="symbols per CPU second", ylim=(0, None), xscale="log")
    fast.set_xticks(LENGTHS, labels=[f"{n:,}" for n in LENGTHS], minor=False)
    for axes in (left, fast):
        axes.minorticks_off()
        axes.legend(frameon=False)
    figure.savefig(file, dpi=110)


def draw_digits(shown: list[Record], file: Path) -> None:
    """Draw images, and below each the completion by every kind. A line marks the beginning of the hidden half."""
    rows = [("image", shown[0]["shown"])]
    half = PIXELS // 2
    for record in shown:
        seen = [image[:half] for image in record["shown"]]
        rows.append((record["cell"]["kind"], [a + b for a, b in zip(seen, record["drawn"], strict=True)]))
    draw_rows(rows, file, greys=GREYS, dpi=110)


if __name__ == "__main__":
    main()
