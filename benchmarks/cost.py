"""What writing a source, looking it up once and training on it cost, for every attention: time and memory.

Against the length of the source, the size of the memory and the number of queries; float32, one source, sizes of 512.
Each figure is the median of rounds in which all attentions took turns, so that rows of a round can be divided. Writes a
CSV, plots, and a summary with the exponent of each look-up in the length, fitted over 1,000 to 20,000 states. Peaks of
memory are measured by a process for each attention that gives back at once what it frees.

    python benchmarks/cost.py
"""

from __future__ import annotations

import argparse
import csv
import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from math import log
from pathlib import Path
from statistics import median, quantiles
from typing import Any, NamedTuple

import torch
from machine import provenance, writable
from matplotlib.figure import Figure
from torch import Tensor

from nmt.attention.base import Attention, Memory
from nmt.config import train_config
from nmt.model.build import construct

SIZE = 512
BEAM = 5  # queries of a look-up: the hypotheses of one sentence
TARGET = 32  # queries of a training step
LENGTHS = [10, 30, 100, 300, 1_000, 2_000, 5_000, 10_000, 20_000]
FIT_FROM = 1_000
LONGEST_CALL_S = 20.0  # what takes longer is not measured at longer sources

KINDS: dict[str, list[str]] = {
    "none": ["attention=none"],
    "bahdanau": ["attention=bahdanau"],
    "luong dot": ["attention=luong", "attention.score=dot"],
    "luong general": ["attention=luong"],
    "luong concat": ["attention=luong", "attention.score=concat"],
    "sparse": ["attention=sparse"],
    "multi_head of luong": ["attention=multi_head"],
    "local": ["attention=local"],
    "memory": ["attention=memory"],
    "low_rank": ["attention=low_rank"],
    "kernel elu": ["attention=kernel"],
    "kernel taylor": ["attention=kernel", "attention.feature_map=taylor"],
    "kernel softmax": ["attention=kernel", "attention.feature_map=softmax"],
    "kernel scaling": ["attention=kernel", "attention.feature_map=scaling"],
    "kernel identity": ["attention=kernel", "attention.feature_map=identity"],
    "delta": ["attention=delta"],
    "covariance": ["attention=covariance"],
    "gated_covariance": ["attention=gated_covariance"],
    "general_covariance": ["attention=general_covariance"],
    "general_covariance recall": ["attention=general_covariance", "attention.recall=true"],
}
FIXED = [name for name in KINDS if not name.startswith(("bahdanau", "luong", "sparse", "multi_head", "none"))]


HEADINGS = [
    *(("look-up, µs", f"S = {length}") for length in ("100", "1,000", "20,000")),
    ("its exponent", "in S"),
    ("memory, MB", "S = 20,000"),
    ("write, ms", "S = 1,000"),
    ("training, ms", "S = 1,000"),
    ("its peak, MB", "S = 1,000"),
    ("training, ms", "S = 20,000"),
    ("its peak, MB", "S = 20,000"),
]


class Cell(NamedTuple):
    """One figure: ``phase`` is write, look-up or training; ``bytes`` of the memory, or the peak of training."""

    axis: str
    kind: str
    value: int
    phase: str
    ms: float
    low_ms: float
    high_ms: float
    bytes: int


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--threads", type=int, default=2)
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--device", default="cpu")
    options.add_argument("--peaks", default=None, help=argparse.SUPPRESS)
    options.add_argument("--output", type=writable, default=Path(__file__).parent / "results")
    asked = options.parse_args()
    torch.set_num_threads(asked.threads)
    torch.manual_seed(1)
    if asked.peaks is not None:
        print(json.dumps(peaks(asked.peaks)))
        return
    most = {kind: peaks_apart(kind, asked.threads) for kind in KINDS}
    cells = [*lengths(asked, most), *sizes(asked), *queries(asked)]
    with (asked.output / "cost.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(Cell._fields)
        table.writerows((*cell[:4], *(f"{number:.5f}" for number in cell[4:7]), cell.bytes) for cell in cells)
    draw(cells, asked.output / "cost.png")
    lines = summary(cells, asked.threads, flatness(asked))
    (asked.output / "cost.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


def build(words: Sequence[str], size: int = SIZE) -> Attention:
    block = train_config([*words, f"encoder.hidden_size={size}", f"decoder.hidden_size={size}"])["attention"]
    made: Attention = construct(block, (), state_size=size, query_size=size, max_length=max(LENGTHS))
    return made


def peaks(kind: str) -> list[int]:
    """Bytes by which one training step raises the resident memory, at its highest, for each of LENGTHS."""
    attention = build(KINDS[kind])
    prepared(attention, "training", 10, TARGET).run()  # what is loaded with the first call is no cost of a source
    return [peak(prepared(attention, "training", length, TARGET).run) for length in LENGTHS]


def peaks_apart(kind: str, threads: int) -> list[int]:
    """``peaks`` in a process whose allocator gives freed blocks of 64 kB and more back to the system."""
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
    command = [sys.executable, __file__, "--peaks", kind, "--threads", str(threads)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found: list[int] = json.loads(done.stdout)
    return found


def lengths(asked: argparse.Namespace, most: dict[str, list[int]]) -> Iterator[Cell]:
    """All phases of all kinds at growing lengths; a kind that takes too long is left out from then on."""
    kinds = {name: build(words).to(asked.device) for name, words in KINDS.items()}
    slow: set[tuple[str, str]] = set()
    for length in LENGTHS:
        for phase in ("write", "look-up", "training"):
            ready = {name: one for name, one in kinds.items() if (name, phase) not in slow}
            calls = {
                name: prepared(one, phase, length, BEAM if phase == "look-up" else TARGET)
                for name, one in ready.items()
            }
            for cell in measure("length", length, phase, calls, asked.rounds):
                yield cell._replace(bytes=most[cell.kind][LENGTHS.index(length)]) if phase == "training" else cell
                if cell.ms > LONGEST_CALL_S * 1000:
                    slow.add((cell.kind, phase))


def sizes(asked: argparse.Namespace) -> Iterator[Cell]:
    """Look-ups and writes against K (memory, low_rank), key size (kernel, delta) and state size (covariance)."""
    for size in (8, 32, 128, 512, 1024):
        made = {
            "memory": build(["attention=memory", f"attention.slots={size}"]),
            "low_rank": build(["attention=low_rank", f"attention.slots={size}"]),
            "kernel elu": build(["attention=kernel", f"attention.key_size={size}"]),
            "delta": build(["attention=delta", f"attention.key_size={size}"]),
            "covariance": build(["attention=covariance"], size),
        }
        for phase in ("write", "look-up"):
            calls = {name: prepared(one.to(asked.device), phase, FIT_FROM, BEAM) for name, one in made.items()}
            yield from measure("size", size, phase, calls, asked.rounds)


def queries(asked: argparse.Namespace) -> Iterator[Cell]:
    """One read of so many queries at once, of a source of 1,000 states."""
    kinds = {name: build(words).to(asked.device) for name, words in KINDS.items()}
    for count in (1, 5, 32, 160, 1_000):
        calls = {name: prepared(one, "look-up", FIT_FROM, count) for name, one in kinds.items()}
        yield from measure("queries", count, "look-up", calls, asked.rounds)


def flatness(asked: argparse.Namespace) -> dict[str, float]:
    """A look-up in the longest source as a multiple of one in 100 states: kinds whose memory does not grow, and local.

    Both take turns, one right after the other, and the median of their ratios counts.
    """
    found = {}
    for name in FIXED:
        one = build(KINDS[name]).to(asked.device)
        short, long = (prepared(one, "look-up", length, BEAM).run for length in (100, max(LENGTHS)))
        ratios = [timed(long, 300) / timed(short, 300) for _ in range(4 * asked.rounds)]
        found[name] = median(ratios[asked.rounds :])
    return found


class Call(NamedTuple):
    run: Callable[[], Any]
    held: int
    """Bytes of the memory; 0 for training, which holds it only for a moment."""


def prepared(attention: Attention, phase: str, length: int, count: int) -> Call:
    """A function of no argument that does the phase once, for one source and ``count`` queries."""
    device = next(iter(attention.parameters()), torch.empty(0)).device
    width = attention.context_size or SIZE
    states = torch.randn(1, length, width, device=device)
    mask = torch.ones(1, length, dtype=torch.bool, device=device)
    query = torch.randn(1, count, width, device=device)
    with torch.no_grad():
        memory = attention.write(states, mask) if phase != "training" else None

    @torch.no_grad()
    def write() -> Memory:
        return attention.write(states, mask)

    @torch.no_grad()
    def look_up() -> Tensor:
        assert memory is not None
        return attention.read(query, memory)[0]

    def training() -> None:
        given = states.detach().requires_grad_(), query.detach().requires_grad_()
        context = attention.read(given[1], attention.write(given[0], mask))[0]
        if context.numel():
            context.sum().backward()

    held = 0 if memory is None else sum(field.numel() * field.element_size() for field in memory if field is not None)
    return Call({"write": write, "look-up": look_up, "training": training}[phase], held)


def measure(axis: str, value: int, phase: str, calls: dict[str, Call], rounds: int) -> Iterator[Cell]:
    """The calls in turns, ``rounds`` times; each turn long enough to be timed. What takes seconds runs once."""
    repeats, seconds = {}, {name: list[float]() for name in calls}
    for name, call in calls.items():
        once = timed(call.run, 1)
        repeats[name] = max(1, min(1_000, int(0.01 / max(once, 1e-7))))
        seconds[name].append(once if once > 1 else timed(call.run, repeats[name]))
    for _ in range(rounds - 1):
        for name, call in calls.items():
            if seconds[name][0] <= 1:
                seconds[name].append(timed(call.run, repeats[name]))
    for name, found in seconds.items():
        low, _, high = quantiles(found, n=4) if len(found) > 1 else found * 3
        yield Cell(axis, name, value, phase, 1000 * median(found), 1000 * low, 1000 * high, calls[name].held)


def timed(run: Callable[[], Any], repeats: int) -> float:
    """Seconds of one call."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    started = time.perf_counter()
    for _ in range(repeats):
        run()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return (time.perf_counter() - started) / repeats


def peak(run: Callable[[], Any]) -> int:
    """Bytes by which one call raises the resident memory, at its highest; Linux counts them, elsewhere 0."""
    gc.collect()
    try:
        Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts again from here
        before = _resident("VmRSS")
        run()
        return max(0, _resident("VmHWM") - before)
    except OSError:
        run()
        return 0


def _resident(name: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(name))


def summary(cells: list[Cell], threads: int, flat: dict[str, float]) -> list[str]:
    at = {(cell.kind, cell.value, cell.phase): cell for cell in cells if cell.axis == "length"}
    lines = ["# What each attention costs", "", *(f"- {line}" for line in provenance())]
    lines += [
        f"- B = 1 source, sizes {SIZE}, float32, {threads} threads; a look-up is Q = {BEAM} queries, training {TARGET}",
        "- medians of rounds in which all kinds took turns; quartiles, and all other figures, in cost.csv",
        "",
        f"| | {' | '.join(title for title, _ in HEADINGS)} |",
        "|---" * (len(HEADINGS) + 1) + "|",
        f"| attention | {' | '.join(unit for _, unit in HEADINGS)} |",
    ]
    for kind in KINDS:
        look = [at[kind, length, "look-up"].ms * 1000 for length in (100, 1_000, 20_000)]
        held = at[kind, 20_000, "look-up"].bytes / 2**20
        cost = [at[kind, 1_000, "write"].ms]
        row = [kind, *(f"{one:,.0f}" for one in look), f"{exponent(at, kind):+.2f}", f"{held:.1f}", f"{cost[0]:.2f}"]
        for length in (1_000, 20_000):
            found = at.get((kind, length, "training"))
            row += [f"{found.ms:,.1f}", f"{found.bytes / 2**20:,.0f}"] if found else ["–", "–"]
        lines.append(f"| {' | '.join(row)} |")
    lines += ["", "Look-up at S = 20,000 as a multiple of that at S = 100, in turns, median of the ratios:", ""]
    lines += [f"- {kind}: {ratio:.2f}" for kind, ratio in flat.items()]
    ratio = at["bahdanau", 2_000, "look-up"].ms / at["memory", 2_000, "look-up"].ms
    lines += ["", f"At S = 2,000 a look-up in memory (K = 32) is {ratio:.0f} times as fast as Bahdanau's."]
    lines += ["", "The shortest source at which each looks up faster than Luong general attention does:", ""]
    lines += [f"- {kind}: {crossing(at, kind)}" for kind in FIXED]
    return [*lines, "", "![cost against the length of the source, the size of the memory, the queries](cost.png)"]


def exponent(at: dict[tuple[str, int, str], Cell], kind: str) -> float:
    """The slope of log time over log length, by least squares."""
    points = [(log(length), log(at[kind, length, "look-up"].ms)) for length in LENGTHS if length >= FIT_FROM]
    mean_x, mean_y = (sum(column) / len(points) for column in zip(*points, strict=True))
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)


def crossing(at: dict[tuple[str, int, str], Cell], kind: str) -> str:
    for length in LENGTHS:
        if at[kind, length, "look-up"].ms < at["luong general", length, "look-up"].ms:
            return f"{length:,}"
    return "none up to 20,000"


def draw(cells: list[Cell], file: Path) -> None:
    figure = Figure(figsize=(16, 13), layout="constrained")
    panels = [
        ("length", "write", "ms", "writing a source, ms"),
        ("length", "look-up", "ms", f"a look-up of {BEAM} queries, ms"),
        ("length", "training", "ms", f"forward and backward, {TARGET} queries, ms"),
        ("length", "look-up", "bytes", "memory of a source, MB"),
        ("length", "training", "bytes", "peak of forward and backward, MB"),
        ("size", "look-up", "ms", "a look-up, S = 1,000, ms"),
        ("queries", "look-up", "ms", "a read of all queries, S = 1,000, ms"),
    ]
    axes = figure.subplots(3, 3).flatten()
    styles = {name: (f"C{index % 10}", "-" if index < 10 else "--") for index, name in enumerate(KINDS)}
    for axis, (over, phase, what, title) in zip(axes, panels, strict=False):
        for kind, (color, style) in styles.items():
            found = [cell for cell in cells if (cell.axis, cell.kind, cell.phase) == (over, kind, phase)]
            heights = [cell.ms if what == "ms" else cell.bytes / 2**20 for cell in found]
            if found and max(heights) > 0:
                axis.plot([cell.value for cell in found], heights, color=color, linestyle=style, label=kind, marker=".")
        axis.set(xscale="log", yscale="log", title=title)
        axis.set_xlabel({"length": "source states", "size": "K, key size or state size", "queries": "queries"}[over])
    axes[7].axis("off")
    axes[8].axis("off")
    handles, labels = axes[1].get_legend_handles_labels()
    axes[7].legend(handles, labels, loc="upper left", ncols=2, frameon=False)
    figure.savefig(file, dpi=110)


if __name__ == "__main__":
    main()
