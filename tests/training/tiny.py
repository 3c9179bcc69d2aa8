"""A copy task that trains in seconds, and functions that interrupt or observe such a run."""

from __future__ import annotations

import csv
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from nmt.commands.prepare import prepare
from nmt.training.task import TranslationTask

TINY = [
    *("data=copy", "data.train_pairs=300", "data.valid_pairs=20", "data.test_pairs=8", "tokenizer.vocab_size=280"),
    *("embeddings.size=8", "encoder.hidden_size=8", "decoder.hidden_size=8", "attention.slots=3"),
    *("training.max_epochs=2", "training.decode_sentences=5", "search.max_length=8", "device=cpu", "threads=1"),
    "export=false",
]

SMALL = [*TINY, "data.train_pairs=60", "data.test_pairs=2"]


def on_prepared(folder: str, *settings: str, parts: Sequence[str] = ("train", "valid")) -> list[str]:
    """Run nmt-prepare with these settings into ``folder``, and return the arguments of a tiny run on it."""
    Path("a.src").write_text("".join(f"Ban des {'Gin ' * n}kor\n" for n in range(30)))
    Path("a.tgt").write_text("".join(f"Ban des {'Gni ' * n}kor\n" for n in range(30)))
    files = [f"data.{part}.{side}=a.{side}" for part in parts for side in ("src", "tgt")]
    prepare([*files, "tokenizer.vocab_size=276", *settings, f"output={folder}"])
    model = [word for word in TINY if not word.startswith(("data", "tokenizer"))]
    return [*model, "data=prepared", f"data.folder={folder}"]


def record_batches(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """Return a list that collects the rows of every training batch, in order."""
    batches: list[list[int]] = []
    original = TranslationTask.training_step

    def training_step(self: TranslationTask, batch: Any, index: int) -> Any:
        batches.append(batch.index.tolist())
        return original(self, batch, index)

    monkeypatch.setattr(TranslationTask, "training_step", training_step)
    return batches


def validations(run: Path) -> list[tuple[str, str]]:
    """Return (step, epoch) of each validation."""
    with (run / "metrics.csv").open(newline="") as file:
        return [(row["step"], row["epoch"]) for row in csv.DictReader(file) if row["valid_loss"]]


def interrupt_at(monkeypatch: pytest.MonkeyPatch, *, step: int, signal_number: int = signal.SIGINT) -> None:
    """Send Ctrl-C, or the signal ``signal_number``, once during the update number ``step``."""
    original = TranslationTask.training_step
    pending = [signal_number]

    def training_step(self: TranslationTask, batch: Any, index: int) -> Any:
        if self.global_step == step and pending:
            signal.raise_signal(pending.pop())
        return original(self, batch, index)

    monkeypatch.setattr(TranslationTask, "training_step", training_step)


def rates(run: Path) -> list[tuple[str, float]]:
    """Return (step, learning rate) of each row with a learning rate."""
    with (run / "metrics.csv").open(newline="") as file:
        return [(row["step"], float(row["lr"])) for row in csv.DictReader(file) if row["lr"]]
