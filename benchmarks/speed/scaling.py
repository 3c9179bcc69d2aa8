"""Simulate the input of 1, 8 and 64 processes, and compute what they need beside it.

The batches are those of nmt-train on random sentences with the lengths of captions. The script measures how long a
process needs until its first batch, and how many target pieces it reads per second. It also computes how evenly the
updates are divided: the mean padded pieces of the ranks, over those of the largest batch, which the others wait for.

The speed of a device and of the network are assumptions. From them follow the seconds that an update takes, and the
share of that time in which devices compute. Gradients are exchanged after the backward pass here; DDP overlaps both.

    python -m benchmarks.speed.scaling
"""

from __future__ import annotations

import time
from functools import partial

import numpy as np
from torch.utils.data import DataLoader

from benchmarks.report import argument_parser, header, save, table
from nmt.text.batches import CorpusPlan, EpochBatches, collate

WORLDS = (1, 8, 64)
READ = 200  # batches whose reading is timed
COLUMNS = (
    *("processes", "updates per epoch", "s to the first batch", "target pieces read per s", "balance"),
    *("target pieces per update", "s to compute", "MB to exchange", "s to exchange"),
    *("share of the time", "speed-up"),
)


class RandomCorpus:
    """Sentence pairs with random piece ids, as many as ``count``."""

    def __init__(self, count: int, vocabulary: int = 8000) -> None:
        random = np.random.default_rng(1)
        normal = random.normal(size=(2, count))
        sides = np.exp(2.6 + 0.3 * np.stack([normal[0], 0.85 * normal[0] + 0.53 * normal[1]]))
        self.source_lengths, self.target_lengths = np.clip(np.round(sides), 1, 90).astype(np.int32)
        self.pieces = random.integers(4, vocabulary, 1000, dtype=np.int32)

    def __len__(self) -> int:
        return len(self.source_lengths)

    def ids(self, row: int) -> tuple[np.ndarray, np.ndarray]:
        return self.pieces[: self.source_lengths[row]], self.pieces[: self.target_lengths[row]]


def main() -> None:
    parser = argument_parser(__doc__, threads=1)
    parser.add_argument("--pairs", type=int, default=300_000)
    parser.add_argument("--max-tokens", type=int, default=8192, help="batches.max_tokens (default: %(default)s)")
    parser.add_argument("--parameters", type=float, default=22e6, help="weights of the model (default: %(default)s)")
    parser.add_argument("--rate", type=float, default=50_000, help="assumed target pieces per second of a device")
    parser.add_argument("--bandwidth", type=float, default=3.0, help="assumed GB/s between two processes")
    args = parser.parse_args()
    corpus = RandomCorpus(args.pairs)
    rows = []
    for world_size in WORLDS:
        start_s, read_rate, pieces, balance, updates = simulate(corpus, args.max_tokens, world_size)
        simulated = (
            f"{updates:,}",
            f"{start_s:.1f}",
            f"{read_rate:,.0f}",
            f"{balance:.3f}",
            f"{pieces * world_size:,.0f}",
        )
        megabytes = 4e-6 * args.parameters * 2 * (world_size - 1) / world_size
        compute_s, exchange_s = pieces / args.rate, megabytes / 1e3 / args.bandwidth
        share = balance * compute_s / (compute_s + exchange_s)
        computed = (
            f"{compute_s:.3f}",
            f"{megabytes:.0f}",
            f"{exchange_s:.3f}",
            f"{share:.2f}",
            f"{share * world_size:.1f}",
        )
        rows.append((world_size, *simulated, *computed))
    lines = header(
        "Training on several devices",
        f"{args.pairs:,} random pairs with the lengths of captions, batches.max_tokens={args.max_tokens}",
        f"assumed: {args.parameters / 1e6:.0f} M weights in float32, {args.bandwidth:g} GB/s between processes, "
        f"{args.rate:,.0f} target pieces per second of a device",
    )
    save(args.output / "scaling.md", [*lines, *table(COLUMNS, rows)])


def simulate(corpus: RandomCorpus, max_tokens: int, world_size: int) -> tuple[float, float, float, float, int]:
    """Return seconds to the first batch, pieces read per second, pieces per batch, balance and updates per epoch."""
    started = time.perf_counter()
    plan = CorpusPlan(corpus.source_lengths, corpus.target_lengths, max_tokens=max_tokens)
    loaded = {"batch_sampler": EpochBatches(plan, world_size=world_size), "collate_fn": partial(collate, corpus)}
    batches = iter(DataLoader(range(len(corpus)), **loaded))  # type: ignore[arg-type]
    next(batches)
    start_s = time.perf_counter() - started
    pieces, started = 0, time.perf_counter()
    for _, batch in zip(range(READ), batches, strict=False):
        pieces += int(batch.target_mask.sum())
    read_rate = pieces / (time.perf_counter() - started)
    shared = [rows for part in plan.parts(0, world_size) for rows in part.plan()]
    sizes = np.array([padded_pieces(corpus, rows) for rows in shared]).reshape(-1, world_size)
    per_batch = float((corpus.target_lengths + 1).sum()) / len(shared)
    return start_s, read_rate, per_batch, float(sizes.mean() / sizes.max(1).mean()), len(sizes)


def padded_pieces(corpus: RandomCorpus, rows: np.ndarray) -> int:
    return len(rows) * int(corpus.source_lengths[rows].max() + corpus.target_lengths[rows].max() + 2)


if __name__ == "__main__":
    main()
