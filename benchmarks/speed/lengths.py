"""Measure how decoding slows down with the source length, for four attentions in otherwise equal reference models.

Each cell decodes a batch of 32 sources with beam 5 and --steps decoder steps, by onnx-int8. "step" is the time of one
decoder step, without encoding. Bahdanau's look-up is also timed alone, as the graph computes it, beside the time to
move its data at the memory bandwidth of this machine: "data once" reads the keys and the states one time, "all passes"
adds what an addition, a tanh and a product read and write of (B, N, S, A) numbers.

    python -m benchmarks.speed.lengths
"""

from __future__ import annotations

import argparse
import csv
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure

from benchmarks.report import argument_parser, header, save, table
from benchmarks.speed.decode import decode_steps, load_engines
from benchmarks.speed.floor import best_seconds
from benchmarks.speed.reference import SIZE, VOCABULARY, reference
from nmt.attention import BahdanauAttention
from nmt.attention.base import Memory
from nmt.inference.onnx.engine import open_session
from nmt.inference.onnx.export import ANY, write_graph
from nmt.text.specials import EOS

KINDS = {
    "memory, K = 32": ["memory"],
    "located_memory, K = 32": ["located_memory"],
    "bahdanau": ["bahdanau"],
    "luong general": ["luong"],
}
LENGTHS = (10, 15, 25, 35, 64, 100, 200, 500, 1000)
BATCH, BEAM = 32, 5
ATTENTION_SIZE = 256  # the default of conf/attention/bahdanau.yaml


def main() -> None:
    parser = argument_parser(__doc__, rounds=7, runs="runs/decode")
    parser.add_argument("--engine", nargs=1, default=["onnx-int8"], help="default: onnx-int8")
    parser.add_argument("--length", type=int, nargs="+", default=LENGTHS, help="source pieces; default: %(default)s")
    parser.add_argument("--steps", type=int, default=35, help="decoder steps; default: %(default)s")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    runs = {name: reference(args.runs, words) for name, words in KINDS.items()}
    engines = {name: next(load_engines(run, args, BATCH * BEAM))[1] for name, run in runs.items()}
    look_up_seconds, bandwidth = bahdanau_look_up(args.threads), memory_bandwidth()
    rows: list[list[float]] = []
    for length in args.length:
        totals, steps = time_engines(engines, length, args)
        once, passes = (moved / bandwidth for moved in look_up_traffic(length))
        rows.append([length, *totals, *steps, look_up_seconds(length), once, passes])
        print(*(f"{number:.4g}" for number in rows[-1]), flush=True)
    save(args.output / "lengths.md", report(args, rows, bandwidth), show=False)
    with (args.output / "lengths.csv").open("w", newline="", encoding="utf-8") as file:
        names = [f"{name}, {quantity}" for quantity in ("total, s", "step, s") for name in KINDS]
        csv.writer(file).writerows([["S", *names, "bahdanau look-up, s", "data once, s", "all passes, s"], *rows])
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


class Read(torch.nn.Module):
    """The look-up of an attention as a module that can be exported."""

    def __init__(self, attention: BahdanauAttention) -> None:
        super().__init__()
        self.attention = attention

    def forward(self, memory: dict[str, torch.Tensor], query: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.attention.read(query, Memory(**memory))


def bahdanau_look_up(threads: int) -> Callable[[int], float]:
    """Return a function from the source length to the seconds of one look-up of all hypotheses by onnxruntime."""
    attention = BahdanauAttention(state_size=SIZE, query_size=SIZE, attention_size=ATTENTION_SIZE)

    def memory_fields(length: int) -> dict[str, torch.Tensor]:
        memory = attention.write(torch.randn(BATCH, length, SIZE), torch.ones(BATCH, length, dtype=torch.bool))
        return {name: field.detach() for name, field in memory._asdict().items() if field is not None}

    with tempfile.TemporaryDirectory() as folder:
        file, example = Path(folder) / "read.onnx", memory_fields(7)
        dynamic = {name: {0: ANY} | ({1: ANY} if field.dim() > 1 else {}) for name, field in example.items()}
        query = torch.randn(BATCH, BEAM, SIZE)
        shapes, inputs = (dynamic, {0: ANY, 1: ANY}), [*example, "query"]
        write_graph(Read(attention), (example, query), shapes, file, inputs, ["context", "weights"])
        session = open_session(file, threads)

    def seconds(length: int) -> float:
        inputs = {graph_input.name for graph_input in session.get_inputs()}
        memory = {name: field.numpy() for name, field in memory_fields(length).items() if name in inputs}
        return best_seconds(lambda: session.run(None, {"query": query.numpy(), **memory}))

    return seconds


def look_up_traffic(length: int) -> tuple[float, float]:
    """Return the bytes that a Bahdanau look-up moves at least, and those that its operations move one by one."""
    once = 4 * BATCH * length * (ATTENTION_SIZE + SIZE)
    return once, once + 4 * 4 * BATCH * BEAM * length * ATTENTION_SIZE


def memory_bandwidth() -> float:
    """Return the bytes per second of a copy in memory; reading and writing both count."""
    source = torch.zeros(1 << 26)
    target = torch.empty_like(source)
    return 2 * source.numel() * 4 / best_seconds(lambda: target.copy_(source))


def report(args: argparse.Namespace, rows: list[list[float]], bandwidth: float) -> list[str]:
    """Return the report with one table row per source length."""
    first, *others = KINDS
    columns = ["S", *(f"{name}, s" for name in KINDS), *(f"{name} / {first}" for name in others)]
    columns += [*(f"{name}, ms per step" for name in KINDS), "Bahdanau look-up, ms", "data once, ms", "all passes, ms"]
    count, cells = len(KINDS), []
    for length, *numbers in rows:
        totals, milliseconds = numbers[:count], [1000 * number for number in numbers[count:]]
        ratios = [f"{total / totals[0]:.2f}×" for total in totals[1:]]
        cells.append([length, *(f"{total:.3f}" for total in totals), *ratios, *(f"{ms:.2f}" for ms in milliseconds)])
    conditions = (
        f"{args.engine[0]}, batch of {BATCH}, beam {BEAM}, {args.steps} steps, {args.threads} threads, medians of "
        f"{args.rounds} rounds in turns; memory bandwidth {bandwidth / 1e9:.0f} GB/s"
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
