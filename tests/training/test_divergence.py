"""A model with infinite or undefined weights is never kept."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny import ONE_EPOCH, TINY, metrics, refuse, stored_weights

from nmt import Translator
from nmt.commands.shell import run as run_command
from nmt.commands.train import train
from nmt.training.task import TranslationTask


def ruin_weights_at(monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """Make a weight NaN after this update, which leaves the losses of earlier updates finite."""
    plain = TranslationTask.optimizer_step

    def optimizer_step(self: TranslationTask, *arguments: Any, **options: Any) -> None:
        plain(self, *arguments, **options)
        if self.global_step + 1 == step:
            with torch.no_grad():
                next(self.model.parameters()).view(-1)[-1] = float("nan")

    monkeypatch.setattr(TranslationTask, "optimizer_step", optimizer_step)


@pytest.fixture
def updates(run: Path) -> int:
    """The number of updates of an epoch."""
    train([*ONE_EPOCH, "name=whole"])
    return int(metrics(run.parent / "whole", "valid_loss")[0]["step"]) + 1


@pytest.mark.thorough
@pytest.mark.parametrize("monitor", ["valid_loss", "valid_bleu"])
def test_model_before_it_is_kept(
    run: Path, updates: int, monitor: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ruin_weights_at(monkeypatch, step=2 * updates)  # the last update of all
    monkeypatch.setattr(sys, "argv", ["nmt-train", *TINY, f"training.monitor={monitor}"])
    with pytest.raises(SystemExit) as ended:
        run_command(train)
    assert ended.value.code == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if "error" in line]
    assert len(lines) == 1 and "training cannot continue; lower optimizer.lr" in lines[0]
    assert lines[0].endswith("; the model of epoch 1 is in runs/demo")
    for file in [run / "model.pt", *(run / "checkpoints").glob("*.ckpt")]:
        assert all(weight.isfinite().all() for weight in stored_weights(file).values()), file
    assert Translator.load(run).translate(["ban"])
    assert not (run / "summary.json").exists()


@pytest.mark.thorough
def test_without_a_finite_model_there_is_an_error_and_no_model(
    run: Path, updates: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ruin_weights_at(monkeypatch, step=updates)
    refuse(ONE_EPOCH, "is (nan|not finite) after update")
    assert not list(run.rglob("*.ckpt")) and not (run / "model.pt").exists()
    # Also a weight that no validation reads.
    monkeypatch.setattr("nmt.training.task.functional.cross_entropy", lambda *_, **__: torch.tensor(1.0))
    refuse(ONE_EPOCH, r"weight model\.\S+ is not finite after update")


def test_nan_loss_stops_the_run(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nan = torch.tensor(float("nan"), requires_grad=True)
    monkeypatch.setattr(TranslationTask, "losses", lambda *_: (nan, {"train_loss": math.nan}))
    refuse(TINY, r"loss is nan at update 0.*optimizer\.lr")
