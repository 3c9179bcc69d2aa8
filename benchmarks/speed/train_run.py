"""A reference model in training for ``train.py``: timed updates of random batches."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from pytorch_lightning.plugins.precision import Precision

from benchmarks.speed.reference import DIMENSIONS, MAX_LENGTH, VOCABULARY
from nmt.config.compose import train_config
from nmt.kernels.output_loss import output_loss
from nmt.model.build import build_model
from nmt.text.batches import Batch, collate
from nmt.training.trainer import Bfloat16

FEEDING = ", input feeding"
ATTENTIONS = {
    "bahdanau": ["attention=bahdanau", "attention.attention_size=512"],
    "luong general": ["attention=luong"],
    "memory": ["attention=memory"],
}
MODELS = {name + FEEDING: [*words, "decoder.input_feeding=true"] for name, words in ATTENTIONS.items()}
MODELS |= {name: [*words, "decoder.input_feeding=false"] for name, words in ATTENTIONS.items()}
TRANSFORMER = ["encoder=transformer", "decoder=transformer", "attention=multi_head", "attention.heads=8"]
TRANSFORMERS = {
    f"transformer, {kind}": [
        *TRANSFORMER,
        *(f"{part}.{key}" for part in ("encoder", "decoder") for key in (f"self_attention={kind}", "heads=8")),
    ]
    for kind in ("softmax", "linear")
}
MODELS |= TRANSFORMERS


class Timing(NamedTuple):
    """Sums over one or several updates: seconds, of which loading; target pieces; real and all positions."""

    seconds: float
    loading: float
    pieces: float
    real: float
    padded: float


class Lengths(NamedTuple):
    """A corpus with known lengths and random pieces."""

    source_lengths: np.ndarray
    target_lengths: np.ndarray

    def batch(self, rows: Sequence[int]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return the pieces of these pairs, the same in each call."""
        generators = [(row, np.random.default_rng(row)) for row in rows]
        return [tuple(random.integers(4, VOCABULARY, side[row]) for side in self) for row, random in generators]


def pair_lengths(files: Sequence[Path] | None) -> tuple[np.ndarray, np.ndarray]:
    """Return source and target lengths in pieces, without </s>: those of the files, or random ones of captions."""
    if files:
        source, target = (
            np.array([len(line.split()) for line in file.read_text(encoding="utf-8").splitlines()]) for file in files
        )
        return source, target
    random = np.random.default_rng(1)
    source = np.clip(random.gamma(12, 1.2, 20_000), 4, 40).round().astype(np.int64)
    return source, np.clip(source * random.normal(1.02, 0.15, len(source)), 4, 45).round().astype(np.int64)


class Run:
    """A model in training, one update at a time."""

    def __init__(self, model_name: str, precision: str, corpus: Lengths, sampler: list[list[int]]) -> None:
        self.precision = precision
        config = train_config([*DIMENSIONS, *MODELS[model_name]])
        torch.manual_seed(1)
        sizes = {"source_vocabulary": VOCABULARY, "target_vocabulary": VOCABULARY, "longest_source": MAX_LENGTH}
        self.model = build_model(config, **sizes).train()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-4, fused=True)
        self.corpus, self.sampler = corpus, sampler
        self.batches = self._batches()

    def _batches(self) -> Iterator[Batch]:
        while True:
            for rows in self.sampler:
                yield collate(self.corpus, rows)

    def update(self) -> Timing:
        """Make one update and time it."""
        started = time.perf_counter()
        batch = next(self.batches)
        loaded = time.perf_counter()
        with (Bfloat16(torch.device("cpu")) if self.precision == "bf16" else Precision()).forward_context():
            features = self.model.features(batch.source, batch.source_mask, batch.target_in)
            loss = output_loss(self.model.decoder.output, features, batch.target_out, batch.target_mask)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        loss.item()
        ended = time.perf_counter()
        real = int(batch.source_mask.sum() + batch.target_mask.sum())
        pieces = int(batch.target_mask.sum())
        return Timing(ended - started, loaded - started, pieces, real, batch.source.numel() + batch.target_in.numel())
