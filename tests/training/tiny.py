"""Runs of seconds: a copy task, and what can befall them."""

from __future__ import annotations

import csv
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from nmt.commands.prepare import prepare
from nmt.training.module import TranslationTask

TINY = [
    *("data=copy", "data.train_pairs=300", "data.valid_pairs=20", "data.test_pairs=8", "tokenizer.vocab_size=280"),
    *("embeddings.size=8", "encoder.hidden_size=8", "decoder.hidden_size=8", "attention.slots=3"),
    *("training.max_epochs=2", "training.decode_sentences=5", "search.max_length=8", "device=cpu", "threads=1"),
]


def on_prepared(folder: str, *settings: str, parts: Sequence[str] = ("train", "valid")) -> list[str]:
    """The words of a tiny run on ``folder``, which nmt-prepare writes here, with these settings of its own."""
    Path("a.src").write_text("".join(f"Ban des {'Gin ' * n}kor\n" for n in range(30)))
    Path("a.tgt").write_text("".join(f"Ban des {'Gni ' * n}kor\n" for n in range(30)))
    files = [f"data.{part}.{side}=a.{side}" for part in parts for side in ("src", "tgt")]
    prepare([*files, "tokenizer.vocab_size=276", *settings, f"output={folder}"])
    rest = [word for word in TINY if not word.startswith(("data", "tokenizer"))]
    return [*rest, "data=prepared", f"data.folder={folder}"]


def record_batches(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """The rows of every batch that will be trained on, as it comes."""
    seen: list[list[int]] = []
    original = TranslationTask.training_step

    def training_step(self: TranslationTask, batch: Any, index: int) -> Any:
        seen.append(batch.index.tolist())
        return original(self, batch, index)

    monkeypatch.setattr(TranslationTask, "training_step", training_step)
    return seen


def validations(run: Path) -> list[tuple[str, str]]:
    """(step, epoch) of each validation."""
    with (run / "metrics.csv").open(newline="") as file:
        return [(row["step"], row["epoch"]) for row in csv.DictReader(file) if row["valid_loss"]]


def interrupt_at(monkeypatch: pytest.MonkeyPatch, *, step: int, press: int = signal.SIGINT) -> None:
    """Press Ctrl-C, or send another signal, once, while update number ``step`` is worked on."""
    original = TranslationTask.training_step
    presses = iter([press])

    def training_step(self: TranslationTask, batch: Any, index: int) -> Any:
        if self.global_step == step and (now := next(presses, None)):
            signal.raise_signal(now)
        return original(self, batch, index)

    monkeypatch.setattr(TranslationTask, "training_step", training_step)


def rates(run: Path) -> list[tuple[str, float]]:
    """(step, learning rate) wherever one was noted."""
    with (run / "metrics.csv").open(newline="") as file:
        return [(row["step"], float(row["lr"])) for row in csv.DictReader(file) if row["lr"]]
