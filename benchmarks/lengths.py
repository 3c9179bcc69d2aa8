"""How does decoding slow down as sources grow? Reference models that differ in their attention alone, in turns.

A batch of 32 sources, beam 5, --steps steps of the decoder, by onnx-int8. ``step`` is one step of the decoder, the time
of encoding taken away. Bahdanau's look-up is timed on its own as well, as the graph computes it, beside what moving its
data takes at the rate at which this machine copies: ``once`` reads the keys and the states a single time, ``passes``
adds what an addition, a hyperbolic tangent and a product write and read of (B, N, S, A) numbers.

    python benchmarks/lengths.py
"""

from __future__ import annotations

import argparse
import csv
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import matplotlib
import numpy as np
import torch
from decode import endless, header, made
from floor import best
from machine import writable
from reference import SIZE, VOCABULARY, reference

from nmt.attention import BahdanauAttention
from nmt.attention.base import Memory
from nmt.inference.onnx.engine import open_session
from nmt.inference.onnx.export import ANY, write_graph
from nmt.text.specials import EOS

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402

KINDS = {"memory, K = 32": ["memory"], "bahdanau": ["bahdanau"], "luong general": ["luong"]}
LENGTHS = (10, 15, 25, 35, 64, 100, 200, 500, 1000)
BATCH, BEAM = 32, 5
ATTENTION_SIZE = 256  # Bahdanau's, as its YAML has it


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--engine", nargs=1, default=["onnx-int8"])
    options.add_argument("--length", type=int, nargs="+", default=LENGTHS)
    options.add_argument("--steps", type=int, default=35)
    options.add_argument("--threads", type=int, default=2)
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--runs", type=Path, default=Path("runs/decode"))
    options.add_argument("--output", type=writable, default=Path(__file__).parent / "results")
    asked = options.parse_args()
    torch.set_num_threads(asked.threads)
    engines = {name: next(made(reference(asked.runs, words), asked))[1] for name, words in KINDS.items()}
    look_up, copied = bahdanau(asked.threads), bytes_a_second()
    rows = []
    for length in asked.length:
        seconds, steps = timed(engines, length, asked)
        once, passes = (moved / copied for moved in traffic(length))
        rows.append([length, *seconds, *steps, look_up(length), once, passes])
        print(*(f"{number:.4g}" for number in rows[-1]), flush=True)
    (asked.output / "lengths.md").write_text("\n".join(table(asked, rows, copied)) + "\n", encoding="utf-8")
    with (asked.output / "lengths.csv").open("w", newline="", encoding="utf-8") as file:
        names = [f"{name}, {what}" for what in ("whole, s", "step, s") for name in KINDS]
        csv.writer(file).writerows([["S", *names, "bahdanau look-up, s", "once, s", "passes, s"], *rows])
    draw(rows, asked.output / "lengths.png")


def timed(engines: dict[str, Any], length: int, asked: argparse.Namespace) -> tuple[list[float], list[float]]:
    """Median seconds of a whole batch, and of one step, by engine."""
    random = np.random.default_rng(1)
    lines = [[*random.integers(300, VOCABULARY, length - 1).tolist(), EOS] for _ in range(BATCH)]
    whole: dict[str, list[float]] = {name: [] for name in engines}
    steps: dict[str, list[float]] = {name: [] for name in engines}
    for at in range(asked.rounds + 1):
        for name, engine in engines.items():
            started = time.perf_counter()
            engine.encode(lines)
            encoded = time.perf_counter()
            endless(engine, lines, BEAM, BATCH, asked.steps)
            ended = time.perf_counter()
            if at:
                whole[name].append(ended - encoded)
                steps[name].append((ended - encoded - (encoded - started)) / asked.steps)
    return [median(each) for each in whole.values()], [median(each) for each in steps.values()]


class Read(torch.nn.Module):
    def __init__(self, attention: BahdanauAttention) -> None:
        super().__init__()
        self.attention = attention

    def forward(self, memory: dict[str, torch.Tensor], query: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.attention.read(query, Memory(**memory))


def bahdanau(threads: int) -> Any:
    """Seconds of one look-up of all hypotheses, by source length: the graph of the attention alone."""
    attention = BahdanauAttention(state_size=SIZE, query_size=SIZE, attention_size=ATTENTION_SIZE)

    def fields(length: int) -> dict[str, torch.Tensor]:
        written = attention.write(torch.randn(BATCH, length, SIZE), torch.ones(BATCH, length, dtype=torch.bool))
        return {name: field.detach() for name, field in written._asdict().items() if field is not None}

    with tempfile.TemporaryDirectory() as folder:
        file, example = Path(folder) / "read.onnx", fields(7)
        grows = {name: {0: ANY} | ({1: ANY} if field.dim() > 1 else {}) for name, field in example.items()}
        query = torch.randn(BATCH, BEAM, SIZE)
        shapes, given = (grows, {0: ANY, 1: ANY}), [*example, "query"]
        write_graph(Read(attention), (example, query), shapes, file, given, ["context", "weights"])
        session = open_session(file, threads)

    def seconds(length: int) -> float:
        read = {one.name for one in session.get_inputs()}
        memory = {name: field.numpy() for name, field in fields(length).items() if name in read}
        return best(lambda: session.run(None, {"query": query.numpy(), **memory}))

    return seconds


def traffic(length: int) -> tuple[float, float]:
    """Bytes that a Bahdanau look-up moves at least, and as its operations write and read them."""
    once = 4 * BATCH * length * (ATTENTION_SIZE + SIZE)
    return once, once + 4 * 4 * BATCH * BEAM * length * ATTENTION_SIZE


def bytes_a_second() -> float:
    """At which memory is copied, reading and writing counted."""
    source = torch.zeros(1 << 26)
    target = torch.empty_like(source)
    return 2 * source.numel() * 4 / best(lambda: target.copy_(source))


def table(asked: argparse.Namespace, rows: list[list[float]], copied: float) -> list[str]:
    first, *others = KINDS
    lines = [
        *header("Decoding by source length"),
        f"- {asked.engine[0]}, batch of {BATCH}, beam {BEAM}, {asked.steps} steps, {asked.threads} threads, medians of "
        f"{asked.rounds} rounds in turns; memory is copied at {copied / 1e9:.0f} GB/s",
        "",
        f"| S | {' | '.join(f'{name}, s' for name in KINDS)} | {' | '.join(f'{name} / {first}' for name in others)} | "
        f"{' | '.join(f'{name}, ms a step' for name in KINDS)} | Bahdanau look-up, ms | once, ms | passes, ms |",
        "|---" * (len(KINDS) * 3 + 3) + "|",
    ]
    count = len(KINDS)
    for length, *numbers in rows:
        whole, steps, rest = numbers[:count], numbers[count : 2 * count], numbers[2 * count :]
        row = [f"{length}", *(f"{one:.3f}" for one in whole), *(f"{one / whole[0]:.2f}×" for one in whole[1:])]
        row += [f"{1000 * one:.2f}" for one in (*steps, *rest)]
        lines.append(f"| {' | '.join(row)} |")
    return lines


def draw(rows: list[list[float]], file: Path) -> None:
    figure, axes = pyplot.subplots(figsize=(6.4, 4), layout="constrained")
    lengths, count = [row[0] for row in rows], len(KINDS)
    for at, name in enumerate(KINDS):
        axes.plot(lengths, [1000 * row[1 + count + at] for row in rows], marker="o", markersize=3, label=name)
    axes.set(xscale="log", yscale="log", xlabel="source pieces", ylabel="milliseconds a step")
    axes.legend(frameon=False)
    figure.savefig(file, dpi=130)


if __name__ == "__main__":
    main()
