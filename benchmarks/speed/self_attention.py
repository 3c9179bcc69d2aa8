"""Measure what self-attention costs: time and memory of forward and backward for N positions, one head of size 64.

Softmax with all N × N products and in torch's fused form, and every other kind of conf/self_attention. Times are CPU
seconds of one thread. Every figure is one line of the CSV file: a later call with a larger
--max measures only what is missing. The script also writes a table and a log-log plot, with the exponent fitted to
the upper half of the lengths.

    python -m benchmarks.speed.self_attention
"""

from __future__ import annotations

import csv
import gc
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from benchmarks.report import argument_parser, header, row, save, table_head
from benchmarks.speed.cost_measure import peak_of_call
from nmt.self_attention import (
    HashedSelfAttention,
    LinearSelfAttention,
    LowRankSelfAttention,
    PooledSelfAttention,
    SelfAttention,
    SoftmaxSelfAttention,
    StridedSelfAttention,
    WindowSelfAttention,
)
from nmt.self_attention.base import Projected

SIZE, HEADS = 64, 1
LENGTHS = [64 * 2**power for power in range(9)]  # up to 16,384
SLOTS = 256
CALLS = 5


class Products(SelfAttention):
    """Softmax self-attention that stores all N × N weights, as in the equation."""

    def both_sides(self, projected: Projected, mask: Tensor) -> Tensor:
        queries, keys, values = projected
        scores = queries @ keys.transpose(-1, -2) / math.sqrt(queries.shape[-1])
        return scores.masked_fill(~mask[:, None, None], -torch.inf).softmax(-1) @ values


def maker(kind: type[SelfAttention], **settings: Any) -> Callable[[int], SelfAttention]:
    """Return a function that builds the self-attention for a length."""
    return lambda _: kind(size=SIZE, heads=HEADS, **settings)


CAUSAL = ", causal"
# Kinds that a decoder can use too, with a row for each of the two forms.
BOTH = {
    "elu": maker(LinearSelfAttention),
    "window, w = 64": maker(WindowSelfAttention),
    "strided, l = 128": maker(StridedSelfAttention, stride=128),
    "hashed, 2 rounds": maker(HashedSelfAttention),
    "pooled, m = 3": maker(PooledSelfAttention),
}
KINDS: dict[str, Callable[[int], SelfAttention]] = {
    "softmax, N × N": maker(Products),
    "softmax, fused": maker(SoftmaxSelfAttention),
    "softmax, fused, causal": maker(SoftmaxSelfAttention),
    **{f"{name}{form}": make for name, make in BOTH.items() for form in ("", CAUSAL)},
    "taylor": maker(LinearSelfAttention, feature_map="taylor"),
    "hedgehog": maker(LinearSelfAttention, feature_map="hedgehog"),
    "features": maker(LinearSelfAttention, feature_map="features"),
    "Shen softmax": maker(LinearSelfAttention, feature_map="softmax"),
    "Shen scaling": maker(LinearSelfAttention, feature_map="scaling"),
    f"low_rank, K = {SLOTS}": lambda length: LowRankSelfAttention(
        size=SIZE, heads=HEADS, slots=SLOTS, max_length=length
    ),
}


class Cell(NamedTuple):
    """One measured kind and length: medians of CPU milliseconds, and the bytes that forward and backward add."""

    kind: str
    length: int
    forward_ms: float
    backward_ms: float
    peak_bytes: int


def main() -> None:
    parser = argument_parser(__doc__, "self_attention.md", threads=None)
    parser.add_argument("--max", type=int, default=LENGTHS[-1], help="largest N; default: %(default)s")
    parser.add_argument("--kind", choices=KINDS, help="measure this kind only, and write no table")
    args = parser.parse_args()
    file = args.output.with_suffix(".csv")
    if args.kind:
        measure(args.kind, args.max, file)
        return
    # One process per kind, which returns freed blocks at once: reused blocks would hide a peak.
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
    known = {(cell.kind, cell.length) for cell in read(file)}
    for kind in KINDS:
        if all((kind, length) in known for length in LENGTHS if length <= args.max):
            continue
        command = [
            sys.executable,
            "-m",
            "benchmarks.speed.self_attention",
            "--kind",
            kind,
            "--max",
            str(args.max),
            "--output",
            str(args.output),
        ]
        subprocess.run(command, check=True, env=environment)
    cells = sorted((cell for cell in read(file) if cell.length <= args.max), key=lambda cell: cell.length)
    plot(cells, args.output.with_suffix(".png"))
    save(args.output, report(cells, args.output.with_suffix(".png").name))


def measure(kind: str, longest: int, file: Path) -> None:
    """Append the missing cells of a kind to the CSV file."""
    torch.set_num_threads(1)
    known = {(cell.kind, cell.length) for cell in read(file)}
    for length in LENGTHS:
        if length <= longest and (kind, length) not in known:
            cell = measure_length(kind, length)
            with file.open("a", newline="", encoding="utf-8") as stream:
                csv.writer(stream).writerow(cell)
            print(f"{kind}, N = {length:,}: {cell.forward_ms:.1f} + {cell.backward_ms:.1f} ms", flush=True)


def measure_length(kind: str, length: int) -> Cell:
    """Measure forward and backward of one sequence."""
    attention = KINDS[kind](length)
    mask = None if kind.endswith(CAUSAL) else torch.ones(1, length, dtype=torch.bool)
    states = torch.randn(1, length, SIZE, requires_grad=True)

    def forward() -> Tensor:
        return attention(states, mask)

    forward().sum().backward()
    gc.collect()
    peak = peak_of_call(lambda: forward().sum().backward())
    forwards, backwards = [], []
    for _ in range(CALLS):
        started = time.process_time()
        output = forward().sum()
        middle = time.process_time()
        output.backward()
        forwards.append(middle - started)
        backwards.append(time.process_time() - middle)
    return Cell(kind, length, 1000 * median(forwards), 1000 * median(backwards), peak)


def read(file: Path) -> list[Cell]:
    """Return the cells measured so far."""
    if not file.exists():
        return []
    with file.open(newline="", encoding="utf-8") as stream:
        rows = list(csv.reader(stream))
    return [Cell(kind, int(n), float(forward), float(backward), int(peak)) for kind, n, forward, backward, peak in rows]


def exponent(cells: list[Cell], value: Callable[[Cell], float]) -> float:
    """Return the exponent of a value in N, by least squares over the longer half of the cells, sorted by length."""
    upper = [cell for cell in cells[len(cells) // 2 :] if value(cell) > 0]
    if len(upper) < 2:
        return math.nan
    return float(np.polyfit([math.log(cell.length) for cell in upper], [math.log(value(cell)) for cell in upper], 1)[0])


def milliseconds(cell: Cell) -> float:
    return cell.forward_ms + cell.backward_ms


def megabytes(cell: Cell) -> float:
    return cell.peak_bytes / 2**20


def report(cells: list[Cell], picture: str) -> list[str]:
    """Return the table of the longest sequence and the exponents."""
    longest = max(cell.length for cell in cells)
    load = f"load average {os.getloadavg()[0]:.1f}"
    fact = f"one sequence, {HEADS} head of {SIZE}, float32, one thread, CPU time; exponents over the longer half of N"
    lines = header("What self-attention costs", f"{fact}; {load} at the end")
    lines += table_head("self-attention", f"forward, ms, N = {longest:,}", "backward, ms", "MB", "time ~ N^", "MB ~ N^")
    for kind in KINDS:
        own = [cell for cell in cells if cell.kind == kind]
        last = next((cell for cell in own if cell.length == longest), None)
        if last:
            powers = [f"{exponent(own, value):.2f}" for value in (milliseconds, megabytes)]
            lines.append(
                row(kind, f"{last.forward_ms:.1f}", f"{last.backward_ms:.1f}", f"{megabytes(last):.1f}", *powers)
            )
    return [*lines, "", f"![time and memory against N]({picture})"]


def plot(cells: list[Cell], file: Path) -> None:
    """Draw time and memory against N, both logarithmic, with the fitted exponents in the legend."""
    figure = Figure(figsize=(12, 5), layout="constrained")
    panels = (("forward and backward, ms", milliseconds), ("peak of forward and backward, MB", megabytes))
    for axis, (title, value) in zip(figure.subplots(1, 2), panels, strict=True):
        for kind in KINDS:
            own = sorted(
                (cell for cell in cells if cell.kind == kind and value(cell) > 0), key=lambda cell: cell.length
            )
            label = f"{kind}: N^{exponent(own, value):.2f}"
            axis.plot([cell.length for cell in own], [value(cell) for cell in own], marker=".", label=label)
        axis.set(xscale="log", yscale="log", xlabel="N", title=title)
        axis.legend(frameon=False, fontsize=8)
    figure.savefig(file, dpi=110)


if __name__ == "__main__":
    main()
