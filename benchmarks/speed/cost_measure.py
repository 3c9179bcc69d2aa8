"""Measurements for ``cost.py``: time and memory of writing, looking up and training, for every attention."""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import torch

from benchmarks.kinds import kinds
from benchmarks.machine import peak_memory, resident_memory
from benchmarks.report import quartiles
from nmt import testing
from nmt.attention.base import Attention
from nmt.config.compose import train_config
from nmt.model.build import ATTENTION
from nmt.settings.plugins import construct
from nmt.testing import PHASES, Call, seconds_per_call

SIZE = 512
BEAM = 5  # queries of a look-up: the hypotheses of one sentence
TARGET = 32  # queries of a training step
LENGTHS = [10, 30, 100, 300, 1_000, 2_000, 5_000, 10_000, 20_000]
MIDDLE_LENGTH = 1_000
PAPER_LENGTH, PAPER_SIZE = 750, 100  # n and k of the covariance paper
PAPER_QUERIES = (1, 4, 32)  # 4: questions about a document
PAPER_ROUNDS = 1_000
PAPER_PAIRS = [("luong score=dot", "covariance_paper"), ("products, Hᵀ softmax(H q)", "products, C q")]
MAX_CALL_S = 20.0  # a slower call is not measured at greater lengths

KINDS = kinds()
# Kinds whose look-up should not grow with the source: memories of fixed size.
CONSTANT = [name for name in KINDS if not name.startswith(("bahdanau", "luong", "sparse", "multi_head", "none"))]


class Cell(NamedTuple):
    """One figure. ``phase``: write, look-up or training. ``bytes``: of the memory, or the peak of training."""

    axis: str
    kind: str
    value: int
    phase: str
    ms: float
    low_ms: float
    high_ms: float
    bytes: int


def build(words: Sequence[str], size: int = SIZE) -> Attention:
    """Return the attention that these overrides select, with states and queries of this size."""
    block = train_config([*words, f"encoder.hidden_size={size}", f"decoder.hidden_size={size}"]).attention
    attention: Attention = construct(block, ATTENTION, state_size=size, query_size=size, max_length=max(LENGTHS))
    return attention


def training_peaks(kind: str) -> list[int]:
    """Return the peak memory in bytes that one training step adds, for each of LENGTHS."""
    attention = build(KINDS[kind])
    prepare(attention, "training", 10, TARGET).run()  # loads libraries, whose memory must not count
    return [peak_of_call(prepare(attention, "training", length, TARGET).run) for length in LENGTHS]


def measure_lengths(rounds: int, peaks: dict[str, list[int]]) -> Iterator[Cell]:
    """Yield all phases of all kinds at growing lengths; a kind that takes too long is skipped from then on."""
    attentions = {name: build(words) for name, words in KINDS.items()}
    slow: set[tuple[str, str]] = set()
    for length in LENGTHS:
        for phase in PHASES:
            count = BEAM if phase == "look-up" else TARGET
            calls = {
                name: prepare(attention, phase, length, count)
                for name, attention in attentions.items()
                if (name, phase) not in slow
            }
            for cell in time_calls("length", length, phase, calls, rounds):
                yield cell._replace(bytes=peaks[cell.kind][LENGTHS.index(length)]) if phase == "training" else cell
                if cell.ms > MAX_CALL_S * 1000:
                    slow.add((cell.kind, phase))


def measure_sizes(rounds: int) -> Iterator[Cell]:
    """Yield look-ups and writes against K (memory, low_rank), key size (kernel, delta) and state size (covariance)."""
    for size in (8, 32, 128, 512, 1024):
        attentions = {
            "memory": build(["attention=memory", f"attention.slots={size}"]),
            "low_rank": build(["attention=low_rank", f"attention.slots={size}"]),
            "kernel elu": build(["attention=kernel", f"attention.key_size={size}"]),
            "delta": build(["attention=delta", f"attention.key_size={size}"]),
            "covariance": build(["attention=covariance"], size),
        }
        for phase in ("write", "look-up"):
            calls = {name: prepare(attention, phase, MIDDLE_LENGTH, BEAM) for name, attention in attentions.items()}
            yield from time_calls("size", size, phase, calls, rounds)


def measure_queries(rounds: int) -> Iterator[Cell]:
    """Yield reads of many queries at once in a source of 1,000 states."""
    attentions = {name: build(words) for name, words in KINDS.items()}
    for count in (1, 5, 32, 160, 1_000):
        calls = {name: prepare(attention, "look-up", MIDDLE_LENGTH, count) for name, attention in attentions.items()}
        yield from time_calls("queries", count, "look-up", calls, rounds)


def paper_look_ups(count: int) -> dict[str, float]:
    """Return the µs of ``count`` look-ups by softmax and by linear attention in a document of the paper's size."""
    (softmax, linear), (softmax_products, linear_products) = PAPER_PAIRS
    attentions = {softmax: ["attention=luong", "attention.score=dot"], linear: ["attention=covariance_paper"]}
    calls = {
        name: prepare(build(words, PAPER_SIZE), "look-up", PAPER_LENGTH, count).run
        for name, words in attentions.items()
    }
    states = torch.randn(PAPER_LENGTH, PAPER_SIZE)
    covariance = states.t() @ states
    query = torch.randn(count, PAPER_SIZE)
    calls[softmax_products] = lambda: (query @ states.t()).softmax(1) @ states
    calls[linear_products] = lambda: query @ covariance
    best = dict.fromkeys(calls, math.inf)
    for _ in range(PAPER_ROUNDS):
        for name, run in calls.items():
            best[name] = min(best[name], 1e6 * seconds_per_call(run, 10))
    return best


def look_up_ratios(rounds: int) -> dict[str, float]:
    """Return look-up time in the longest source over that in 100 states, for CONSTANT: the median of paired runs."""
    medians = {}
    for name in CONSTANT:
        attention = build(KINDS[name])
        short, long = (prepare(attention, "look-up", length, BEAM).run for length in (100, max(LENGTHS)))
        ratios = [seconds_per_call(long, 300) / seconds_per_call(short, 300) for _ in range(4 * rounds)]
        medians[name] = median(ratios[rounds:])
    return medians


def prepare(attention: Attention, phase: str, length: int, count: int) -> Call:
    """Return a function that runs the phase once, for sources of ``length`` states with ``count`` queries each."""
    width = attention.context_size or SIZE
    return testing.prepare(attention, phase, torch.randn(1, length, width), torch.randn(1, count, width))


def time_calls(axis: str, value: int, phase: str, calls: dict[str, Call], rounds: int) -> Iterator[Cell]:
    """Time the calls in turns for ``rounds`` rounds, repeating short calls; a call of over a second runs once."""
    repeats, seconds = {}, {name: list[float]() for name in calls}
    for name, call in calls.items():
        first = seconds_per_call(call.run, 1)
        repeats[name] = max(1, min(1_000, int(0.01 / max(first, 1e-7))))
        seconds[name].append(first if first > 1 else seconds_per_call(call.run, repeats[name]))
    for _ in range(rounds - 1):
        for name, call in calls.items():
            if seconds[name][0] <= 1:
                seconds[name].append(seconds_per_call(call.run, repeats[name]))
    for name, times in seconds.items():
        low, middle, high = (1000 * value_s for value_s in quartiles(times))
        yield Cell(axis, name, value, phase, middle, low, high, calls[name].memory_bytes)


def peak_of_call(run: Callable[[], Any]) -> int:
    """Return the bytes by which one call raises the peak resident memory; 0 where the system cannot tell."""
    gc.collect()
    try:
        Path("/proc/self/clear_refs").write_text("5")  # resets the peak of the process (Linux)
        before = resident_memory()
        run()
        return max(0, peak_memory() - before)
    except OSError:
        run()
        return 0
