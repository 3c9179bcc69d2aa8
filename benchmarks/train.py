"""How fast does each model train, and how near to its floor? Target pieces a second of whole updates, in turns.

An update is all of it: making the batch, forward, loss, backward, clipping, Adam. Models have the sizes of the
reference; pairs are as long as captions, 128 a batch. The floor is the time of the products alone, forward and twice
backward, each at the best rate at which a plain product of its shape ran in the same process. ``padding`` is the share
of padded positions on both sides, ``loading`` the share of time that went into making batches.

    python benchmarks/train.py
    python benchmarks/train.py --pieces train.sp.en train.sp.de          lengths of these files instead of drawn ones
    python benchmarks/train.py --precision float32 bf16

Another toolkit trains before each round and after the last one, if --peer says how: a command for each of bahdanau and
luong that prints JSON lines with its own count of target tokens a second, tps_logged.

    python benchmarks/train.py --peer 'bahdanau=bash other.sh mlp' 'luong=bash other.sh general' --peer-name Other
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median, quantiles
from typing import NamedTuple

import numpy as np
import torch
from floor import BFLOAT16_WAYS, FLOAT_WAYS, Product, floor
from machine import provenance, writable
from pytorch_lightning.plugins.precision import Precision
from reference import LAYERS, SETTINGS, SIZE, VOCABULARY

from nmt.config import train_config
from nmt.kernels.allocation import keep_freed_memory
from nmt.model.build import build_model
from nmt.text.batches import Batch, TokenBatches, collate
from nmt.training.module import TranslationTask
from nmt.training.precision import Bfloat16

MODELS = {
    "bahdanau, fed": ["attention=bahdanau", "attention.attention_size=512", "decoder.input_feeding=true"],
    "luong general, fed": ["attention=luong", "decoder.input_feeding=true"],
    "memory, fed": ["attention=memory", "decoder.input_feeding=true"],
    "bahdanau": ["attention=bahdanau", "attention.attention_size=512", "decoder.input_feeding=false"],
    "luong general": ["attention=luong", "decoder.input_feeding=false"],
    "memory": ["attention=memory", "decoder.input_feeding=false"],
}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--model", nargs="+", choices=MODELS, default=list(MODELS))
    options.add_argument("--precision", nargs="+", choices=["float32", "bf16"], default=["float32"])
    options.add_argument("--pieces", type=Path, nargs=2, help="source and target text as pieces")
    options.add_argument("--updates", type=int, default=6, help="of each model and round")
    options.add_argument("--rounds", type=int, default=4)
    options.add_argument("--sentences", type=int, default=128, help="a batch")
    options.add_argument("--threads", type=int, default=2)
    options.add_argument("--peer", nargs="+", default=[], metavar="ATTENTION=COMMAND")
    options.add_argument("--peer-name", default="the peer")
    options.add_argument("--output", type=writable, default=Path(__file__).parent / "results" / "train.md")
    asked = options.parse_args()
    torch.set_num_threads(asked.threads)
    keep_freed_memory()  # as nmt-train does
    corpus = Lengths(*lengths(asked.pieces))
    sampler = TokenBatches(*corpus, max_tokens=1 << 30, max_sentences=asked.sentences)
    runs = {}
    for precision, name in itertools.product(asked.precision, asked.model):
        label = name if precision == "float32" else f"{name}, {precision}"
        runs[label] = Run(name, precision, corpus, sampler)
    found: dict[str, list[Timed]] = {label: [] for label in runs}
    commands = dict(each.split("=", 1) for each in asked.peer)
    others: dict[str, list[float]] = {attention: [] for attention in commands}
    for at in range(asked.rounds + 1):
        for attention, command in commands.items():
            others[attention] += peer_rates(command)
        for label, run in runs.items():
            each = [run.update() for _ in range(asked.updates if at else 2)]
            found[label] += [Timed(*map(sum, zip(*each, strict=True)))] if at else []
    report = [
        "# Training",
        "",
        *(f"- {line}" for line in provenance()),
        f"- {asked.sentences} sentences a batch, {asked.threads} threads, {asked.rounds} rounds of {asked.updates} "
        "updates in turns; real target pieces, </s> counted",
        "",
        "| model | pieces a second (quartiles) | floor, s | s an update | floor / time | padding | loading | peer |",
        "|---" * 8 + "|",
    ]
    for attention, rates in others.items():
        low, middle, high = quantiles(rates, n=4)
        report.append(f"| {asked.peer_name}, {attention}, fed | {middle:,.0f} ({low:,.0f}–{high:,.0f}) {'| ' * 6}| 1 |")
    for label, rounds in found.items():
        rates = [one.pieces / one.seconds for one in rounds]
        low, middle, high = quantiles(rates, n=4)
        shape = [sum(column) / len(rounds) / asked.updates for column in zip(*rounds, strict=True)]
        run = runs[label]
        ways = FLOAT_WAYS if run.precision == "float32" else BFLOAT16_WAYS
        least = floor(products(*run.mean_shape(), run.name), ways)
        mean = Timed(*shape)
        padding = 1 - mean.real / mean.padded
        row = [label, f"{middle:,.0f} ({low:,.0f}–{high:,.0f})", f"{least:.3f}", f"{mean.seconds:.3f}"]
        row += [f"{least / mean.seconds:.2f}", f"{100 * padding:.1f} %", f"{100 * mean.loading / mean.seconds:.1f} %"]
        beside = others.get(label.split()[0].rstrip(","))
        row.append(f"{middle / median(beside):.2f}×" if beside else "–")
        report.append(f"| {' | '.join(row)} |")
    asked.output.write_text("\n".join(report) + "\n", encoding="utf-8")
    print("\n".join(report))


def peer_rates(command: str) -> list[float]:
    """Target tokens a second, interval by interval, as the command tells them; its first interval warms up."""
    done = subprocess.run(command, shell=True, check=True, capture_output=True, text=True)
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    rates = [float(row["tps_logged"]) for row in rows if "tps_logged" in row]
    if len(rates) < 2:
        sys.exit(f"{command}: told no rates\n{done.stderr[-500:]}")
    return rates[1:]


class Timed(NamedTuple):
    """One update, or several together."""

    seconds: float
    loading: float
    pieces: float
    real: float
    padded: float


class Lengths(NamedTuple):
    """A corpus of which only the lengths are known; its pieces are drawn."""

    source_lengths: np.ndarray
    target_lengths: np.ndarray

    def ids(self, row: int) -> tuple[np.ndarray, np.ndarray]:
        random = np.random.default_rng(row)
        source, target = (random.integers(4, VOCABULARY, side[row]) for side in self)
        return source, target


def lengths(files: Sequence[Path] | None) -> tuple[np.ndarray, np.ndarray]:
    """Pieces of each pair's sides, without </s>: those of the files, or as many as captions have."""
    if files:
        source, target = (
            np.array([len(line.split()) for line in file.read_text(encoding="utf-8").splitlines()]) for file in files
        )
        return source, target
    random = np.random.default_rng(1)
    source = np.clip(random.gamma(12, 1.2, 20_000), 4, 40).round().astype(np.int64)
    return source, np.clip(source * random.normal(1.02, 0.15, len(source)), 4, 45).round().astype(np.int64)


class Run:
    """One model in training, an update at a time."""

    def __init__(self, name: str, precision: str, corpus: Lengths, sampler: TokenBatches) -> None:
        self.name, self.precision = name, precision
        config = train_config([*SETTINGS, *MODELS[name]])
        torch.manual_seed(1)
        sizes = {"source_vocabulary": VOCABULARY, "target_vocabulary": VOCABULARY, "longest_source": 100}
        self.model = build_model(config, **sizes).train()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-4, fused=True)
        self.corpus, self.sampler = corpus, sampler
        self.batches = self._batches()
        self.shapes: list[tuple[int, int, int]] = []

    def _batches(self) -> Iterator[Batch]:
        while True:
            for rows in self.sampler:
                yield collate(self.corpus, rows)  # type: ignore[arg-type]

    def update(self) -> Timed:
        started = time.perf_counter()
        batch = next(self.batches)
        loaded = time.perf_counter()
        with (Bfloat16(torch.device("cpu")) if self.precision == "bf16" else Precision()).forward_context():
            loss = TranslationTask.loss(self.model, batch, smoothing=0.0)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        loss.item()
        ended = time.perf_counter()
        real = int(batch.source_mask.sum() + batch.target_mask.sum())
        self.shapes.append((*batch.source.shape, batch.target_in.shape[1]))
        pieces = int(batch.target_mask.sum())
        return Timed(ended - started, loaded - started, pieces, real, batch.source.numel() + batch.target_in.numel())

    def mean_shape(self) -> tuple[int, float, float]:
        """B, S and T of the mean batch: B × S and B × T are the mean batch's positions, though long ones are fewer."""
        rows, source, target = np.array(self.shapes[2:], float).T
        return round(rows.mean()), *(float((rows * each).mean() / rows.mean()) for each in (source, target))


class Weights(NamedTuple):
    """``copies`` matrices (width × height); each meets so many rows in each of ``steps`` that wait for each other."""

    rows: float
    width: int
    height: int
    steps: float = 1
    copies: int = 1


def products(rows: int, source: float, target: float, name: str) -> list[Product]:
    """All products of an update with weights: forward, and backward by what came in and by the weights.

    What attention multiplies beside its weights is left out: the share of a long source, not of a caption.
    """
    fed = "fed" in name
    each, steps = (rows, target) if fed else (rows * target, 1)  # input feeding makes the target's steps wait
    used = [
        Weights(rows * source, SIZE, 4 * SIZE, copies=LAYERS),  # the encoder's inputs, both directions
        Weights(rows, SIZE // 2, 2 * SIZE, source, 2 * LAYERS),  # and its recurrences
        Weights(rows * target, SIZE, 4 * SIZE),  # embeddings of the target
        Weights(each, SIZE, 4 * SIZE, steps, LAYERS - 1),  # what further layers read
        Weights(rows, SIZE, 4 * SIZE, target, LAYERS),  # the decoder's recurrences
        Weights(each, 2 * SIZE, SIZE, steps),  # h̃
        Weights(rows * target, SIZE, VOCABULARY),
    ]
    used += [Weights(rows, SIZE, 4 * SIZE, target)] if fed else []
    used += [] if name.startswith("memory") else [Weights(rows * source, SIZE, SIZE)]  # keys
    used += [Weights(each, SIZE, SIZE, steps)] if name.startswith("bahdanau") else []  # queries
    found = []
    for one in used:
        count = one.steps * one.copies
        meets, all_of_them = round(one.rows), round(one.rows * one.steps)
        found += [Product(meets, one.width, one.height, count), Product(meets, one.height, one.width, count)]
        # No step waits for the gradients of weights: all steps at once.
        found.append(Product(one.width, all_of_them, one.height, one.copies))
    return found


if __name__ == "__main__":
    main()
