"""``batches.accumulate``: the gradient of an update is that of one batch with the pairs of all its batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from builders import call_before
from tiny import NO_REPORT, SMALL, joined_gradients

from nmt.commands.train import train
from nmt.training.task import TranslationTask

WORDS = [*SMALL, "batches.max_tokens=150", "batches.accumulate=3", "training.max_epochs=1", "schedule=constant"]
LINKED = ["data=generated", "guide=links", "tokenizer.vocab_size=400"]  # some pieces have no links
WORDS += ["encoder.dropout=0", "decoder.dropout=0", "training.label_smoothing=0"]


@pytest.mark.parametrize(("clip_norm", "guide"), [(None, []), (0.01, []), (None, LINKED)])
def test_gradients_are_those_of_the_joined_batch(
    run: Path, clip_norm: float | None, guide: list[str], float64: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows: list[list[int]] = [[]]
    updates: list[tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]] = []
    optimizer_step = TranslationTask.optimizer_step

    def record_rows(task: TranslationTask, batch: Any, index: int) -> None:
        rows[-1] += batch.index.tolist()

    def keep(self: TranslationTask, epoch: int, index: int, optimizer: Any, closure: Any) -> None:
        weights = {name: weight.detach().clone() for name, weight in self.model.named_parameters()}
        optimizer_step(self, epoch, index, optimizer, closure)
        updates.append((weights, {name: weight.grad.clone() for name, weight in self.model.named_parameters()}))  # type: ignore[union-attr]
        rows.append([])

    call_before(monkeypatch, TranslationTask, "training_step", record_rows)
    monkeypatch.setattr(TranslationTask, "optimizer_step", keep)
    monkeypatch.setattr("nmt.training.run.report", lambda *_: NO_REPORT)
    train([*WORDS, *guide, f"training.clip_norm={'null' if clip_norm is None else clip_norm}"])

    assert sorted(row for batches in rows for row in batches) == list(range(60))
    assert len(updates) >= 2 and len(rows[len(updates) - 1]) < len(rows[0])  # the last update has fewer batches
    for batch_rows, (weights, gradients) in zip(rows, updates, strict=False):
        expected = joined_gradients([*WORDS, *guide], run, weights, batch_rows)
        assert gradients.keys() == expected.keys()
        norm = torch.stack([gradient.norm() for gradient in expected.values()]).norm()
        scale = 1.0 if clip_norm is None else min(1.0, clip_norm / float(norm))
        for name, gradient in gradients.items():
            torch.testing.assert_close(gradient, scale * expected[name], rtol=1e-5, atol=1e-9, msg=name)
