"""Measure from which source length it pays to compare a query with a few states only, and what this costs in accuracy.

Look-ups of 5 queries and writes of one source, states of 512; CPU time of one thread. In each round all kinds take
turns. The kinds are then trained on the facts of ``cloze.py``, with equal numbers of updates and states of 64, and
answer questions about longer documents.

    python -m benchmarks.papers.few_states
    python -m benchmarks.papers.few_states --updates 0     without the training
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import torch

from benchmarks.papers.cloze_model import train_on_facts
from benchmarks.report import argument_parser, header, save, table
from nmt.attention import HashedAttention, LocalAttention, LuongAttention, SparseAttention
from nmt.attention.base import Attention

SIZE, QUERIES = 512, 5
LENGTHS = [15, 64, 256, 1_024, 2_048, 4_096, 16_384]
FACTS = [10, 50, 200, 1_000]
FIRST = "luong dot"  # the kind that the others are compared with
KINDS: dict[str, Callable[..., Attention]] = {
    FIRST: lambda **sizes: LuongAttention(**sizes, score="dot"),
    "sparse dot": lambda **sizes: SparseAttention(**sizes, score="dot"),
    "local dot": lambda **sizes: LocalAttention(**sizes, score="dot"),
    "hashed, 2 rounds": lambda **sizes: HashedAttention(**sizes),
    "hashed, 4 rounds": lambda **sizes: HashedAttention(**sizes, rounds=4),
}
CLOZE = {  # rows of cloze_kinds.py
    FIRST: "luong score=dot",
    "sparse dot": "sparse score=dot",
    "local dot": "local score=dot",
    "hashed, 2 rounds": "hashed",
    "hashed, 4 rounds": "hashed rounds=4",
}


def main() -> None:
    parser = argument_parser(__doc__, "few_states.md", threads=None, rounds=7, seeds=[1])
    parser.add_argument("--updates", type=int, default=700, help="updates of each training; default: %(default)s")
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    attentions = {name: build(state_size=SIZE, query_size=SIZE) for name, build in KINDS.items()}
    look_ups, writes = {}, {}
    for length in LENGTHS:
        look_ups[length], writes[length] = measure(attentions, length, args.rounds)
        print(f"S = {length:,}:", *(f"{name} {ms:.3f} ms" for name, ms in look_ups[length].items()), flush=True)
    save(args.output, report(args, look_ups, writes, [accuracy(name, args) for name in CLOZE] if args.updates else []))


@torch.no_grad()
def measure(attentions: dict[str, Attention], length: int, rounds: int) -> tuple[dict[str, float], dict[str, float]]:
    """Return the median milliseconds of a look-up and of a write, by kind."""
    states, query = torch.randn(1, length, SIZE), torch.randn(1, QUERIES, SIZE)
    mask = torch.ones(1, length, dtype=torch.bool)
    memories = {name: attention.write(states, mask) for name, attention in attentions.items()}
    look_ups: dict[str, list[float]] = {name: [] for name in attentions}
    writes: dict[str, list[float]] = {name: [] for name in attentions}
    for index in range(rounds + 1):
        for name, attention in attentions.items():
            look_up = seconds(lambda a=attention, m=memories[name]: a.read(query, m), max(3, min(50, 20_000 // length)))
            write = seconds(lambda a=attention: a.write(states, mask), max(1, min(20, 4_000 // length)))
            if index:  # round 0 is the warm-up
                look_ups[name].append(1000 * look_up)
                writes[name].append(1000 * write)
    return {name: median(t) for name, t in look_ups.items()}, {name: median(t) for name, t in writes.items()}


def seconds(run: Callable[[], Any], repeats: int) -> float:
    """Return the mean CPU seconds of ``repeats`` calls."""
    started = time.process_time()
    for _ in range(repeats):
        run()
    return (time.process_time() - started) / repeats


def accuracy(name: str, args: argparse.Namespace) -> list[str]:
    """Return the table row of a trained kind: the accuracy for each number of facts, mean over the seeds, in %."""
    results = [train_on_facts(CLOZE[name], seed, args.updates, 0, FACTS) for seed in args.seeds]
    means = [100 * sum(result["accuracy"][str(count)] for result in results) / len(results) for count in FACTS]
    row = [name, *(f"{mean:.0f}" for mean in means), f"{median(result['seconds'] for result in results):.0f}"]
    print(*row, flush=True)
    return row


def report(
    args: argparse.Namespace,
    look_ups: dict[int, dict[str, float]],
    writes: dict[int, dict[str, float]],
    trained: list[list[str]],
) -> list[str]:
    """Return the tables of times and of accuracies, and the lengths from which a kind pays."""
    fact = f"one source, {QUERIES} queries, states of {SIZE}, float32, one thread, CPU time, medians of {args.rounds}"
    lines = header("Attention to a few states of a long source", fact)
    for title, times in (("look-up", look_ups), ("write", writes)):
        rows = [[name, *(f"{times[length][name]:.2f}" for length in LENGTHS)] for name in KINDS]
        lines += [*table(["attention", *(f"{title}, ms, S = {length:,}" for length in LENGTHS)], rows), ""]
    lines += ["The shortest source at which a look-up is faster than that of Luong's dot attention:", ""]
    lines += [f"- {name}: {crossing(look_ups, name)}" for name in KINDS if name != FIRST]
    if trained:
        note = f"Accuracy in % with n facts, 3 tokens each, after {args.updates} updates with 2 to 50 facts; mean of "
        lines += ["", f"{note}{len(args.seeds)} seed{'s' * (len(args.seeds) > 1)}; s: CPU seconds of a training", ""]
        lines += table(["attention", *(f"n = {count:,}" for count in FACTS), "s"], trained)
    return lines


def crossing(look_ups: dict[int, dict[str, float]], name: str) -> str:
    """Return the first length from which on the look-up of a kind is the faster one."""
    faster = [look_ups[length][name] < look_ups[length][FIRST] for length in LENGTHS]
    first = next((index for index in range(len(LENGTHS)) if all(faster[index:])), None)
    return f"none up to {LENGTHS[-1]:,}" if first is None else f"{LENGTHS[first]:,}"


if __name__ == "__main__":
    main()
