"""Measure what self-attention costs: time and memory of forward and backward for N positions, one head of size 64.

Softmax with all N × N products and in torch's fused form, linear attention with each paper's feature map, LSH, and
Linformer. Times are CPU seconds of one thread. Every figure is one line of the CSV file: a later call with a larger
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
from typing import NamedTuple

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from benchmarks.report import argument_parser, header, row, save, table_head
from benchmarks.speed.cost_measure import peak_of_call
from nmt.self_attention import FeatureMap, LinearSelfAttention, SelfAttention, SoftmaxSelfAttention
from nmt.self_attention.base import Projected

SIZE, HEADS = 64, 1
LENGTHS = [64 * 2**power for power in range(9)]  # up to 16,384
LINFORMER_KEYS = 256
LSH_ROUNDS, LSH_CHUNK = 2, 64
LSH_SELF = -1e5  # the score of a position with itself
CALLS = 5


class Products(SelfAttention):
    """Softmax self-attention that stores all N × N weights, as in the equation."""

    def both_sides(self, projected: Projected, mask: Tensor) -> Tensor:
        queries, keys, values = projected
        scores = queries @ keys.transpose(-1, -2) / math.sqrt(queries.shape[-1])
        return scores.masked_fill(~mask[:, None, None], -torch.inf).softmax(-1) @ values


class Linformer(SelfAttention):
    """Softmax over K mixtures of the keys, softmax(q (E k)ᵀ / √d) F v: Wang et al. (2020), arXiv 2006.04768, §4."""

    def __init__(self, *, size: int, heads: int, length: int) -> None:
        super().__init__(size=size, heads=heads)
        self.E, self.F = (nn.Linear(length, LINFORMER_KEYS, bias=False) for _ in range(2))

    def both_sides(self, projected: Projected, mask: Tensor) -> Tensor:
        keys = self.E(projected.keys.transpose(-1, -2)).transpose(-1, -2)
        values = self.F(projected.values.transpose(-1, -2)).transpose(-1, -2)
        return nn.functional.scaled_dot_product_attention(projected.queries, keys, values)


class Reformer(SelfAttention):
    """Softmax over the positions with an equal hash, LSH attention: Kitaev et al. (2020), arXiv 2001.04451, §2.

    The queries, with length 1, are also the keys. In each round, positions are sorted by bucket and cut into chunks. A
    position attends to those in its chunk and in the chunk before that share its bucket; to itself only if there is no
    other. The rounds are joined as in appendix A.
    """

    def both_sides(self, projected: Projected, mask: Tensor) -> Tensor:
        queries, values = projected.queries, projected.values
        keys = nn.functional.normalize(queries, dim=-1)
        size, length = queries.shape[-1], queries.shape[-2]
        rotations = torch.randn(LSH_ROUNDS, 1, 1, size, max(1, length // LSH_CHUNK // 2), dtype=keys.dtype)
        turned = keys.detach() @ rotations
        buckets = torch.cat([turned, -turned], dim=-1).argmax(-1)  # (rounds, B, H, N)
        outputs, totals = [], []
        for bucket in buckets:
            order = bucket.argsort(dim=-1)
            read = order.unflatten(2, (-1, LSH_CHUNK))  # (B, H, chunks, positions)
            seen = torch.cat([read.roll(1, dims=2), read], dim=-1)
            equal = [pick(hashed, read)[..., None] == pick(hashed, seen)[..., None, :] for hashed in buckets]
            rounds = torch.stack(equal).sum(0)  # that find the pair, N of appendix A
            scores = pick(queries, read) @ pick(keys, seen).transpose(-1, -2) / math.sqrt(size)
            scores = scores - rounds.clamp(min=1).log()
            scores = scores.masked_fill(read[..., None] == seen[..., None, :], LSH_SELF)
            scores = scores.masked_fill(pick(bucket, read)[..., None] != pick(bucket, seen)[..., None, :], -torch.inf)
            back = order.argsort(dim=-1)
            outputs.append(pick((scores.softmax(-1) @ pick(values, seen)).flatten(2, 3), back))
            totals.append(pick(scores.logsumexp(-1).flatten(2, 3), back))
        shares = torch.stack(totals).softmax(0)[..., None]
        return (shares * torch.stack(outputs)).sum(0)


def pick(field: Tensor, positions: Tensor) -> Tensor:
    """Return the rows of a field (B, H, N) or (B, H, N, d) at positions (B, H, …)."""
    flat = positions.flatten(2)
    if field.dim() == 3:
        return field.gather(2, flat).unflatten(2, positions.shape[2:])
    rows = field.gather(2, flat[..., None].expand(-1, -1, -1, field.shape[3]))
    return rows.unflatten(2, positions.shape[2:])


def linear(feature_map: FeatureMap) -> Callable[[int], SelfAttention]:
    return lambda _: LinearSelfAttention(size=SIZE, heads=HEADS, feature_map=feature_map)


KINDS: dict[str, Callable[[int], SelfAttention]] = {
    "softmax, N × N": lambda _: Products(size=SIZE, heads=HEADS),
    "softmax, fused": lambda _: SoftmaxSelfAttention(size=SIZE, heads=HEADS),
    "elu": linear("elu"),
    "elu, causal": linear("elu"),
    "taylor": linear("taylor"),
    "Shen softmax": linear("softmax"),
    "Shen scaling": linear("scaling"),
    f"LSH, {LSH_ROUNDS} rounds": lambda _: Reformer(size=SIZE, heads=HEADS),
    f"Linformer, K = {LINFORMER_KEYS}": lambda length: Linformer(size=SIZE, heads=HEADS, length=length),
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
    save(args.output, report(cells))


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
    mask = None if kind.endswith("causal") else torch.ones(1, length, dtype=torch.bool)
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


def report(cells: list[Cell]) -> list[str]:
    """Return the table of the longest sequence and the exponents."""
    longest = max(cell.length for cell in cells)
    fact = f"one sequence, {HEADS} head of {SIZE}, float32, one thread, CPU time; exponents over the longer half of N"
    lines = header("What self-attention costs", fact)
    lines += table_head("self-attention", f"forward, ms, N = {longest:,}", "backward, ms", "MB", "time ~ N^", "MB ~ N^")
    for kind in KINDS:
        own = [cell for cell in cells if cell.kind == kind]
        last = next((cell for cell in own if cell.length == longest), None)
        if last:
            powers = [f"{exponent(own, value):.2f}" for value in (milliseconds, megabytes)]
            lines.append(
                row(kind, f"{last.forward_ms:.1f}", f"{last.backward_ms:.1f}", f"{megabytes(last):.1f}", *powers)
            )
    return [*lines, "", "![time and memory against N](self_attention.png)"]


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
