"""A model with infinite or undefined weights is never kept."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny import TINY, interrupt_at, validations, weights

from nmt import Translator
from nmt.commands.shell import run as run_command
from nmt.commands.train import train
from nmt.errors import UserError
from nmt.training.task import TranslationTask

ONE_EPOCH = [*TINY, "training.max_epochs=1"]


def ruin_weights_at(monkeypatch: pytest.MonkeyPatch, step: int, name: str = "") -> None:
    """Make a weight infinite after this update, which leaves the losses of earlier updates finite."""
    plain = TranslationTask.optimizer_step

    def optimizer_step(self: TranslationTask, *arguments: Any, **options: Any) -> None:
        plain(self, *arguments, **options)
        if self.global_step + 1 == step:
            with torch.no_grad():
                weights = dict(self.model.named_parameters())
                weights[name or next(iter(weights))].view(-1)[-1] = float("nan")

    monkeypatch.setattr(TranslationTask, "optimizer_step", optimizer_step)


@pytest.fixture
def updates(run: Path) -> int:
    """The number of updates of an epoch."""
    train([*ONE_EPOCH, "name=whole"])
    return int(validations(run.parent / "whole")[0][0]) + 1


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
        stored = torch.load(file, weights_only=True)
        weights = stored["weights" if file.name == "model.pt" else "state_dict"]
        assert all(bool(weight.isfinite().all()) for weight in weights.values()), file
    assert Translator.load(run).translate(["ban"])
    assert not (run / "summary.json").exists()


@pytest.mark.thorough
def test_without_a_finite_model_there_is_an_error_and_no_model(
    run: Path, updates: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ruin_weights_at(monkeypatch, step=updates)
    with pytest.raises(UserError, match="is (nan|not finite) after update"):
        train(ONE_EPOCH)
    assert not list(run.rglob("*.ckpt")) and not (run / "model.pt").exists()


@pytest.mark.thorough
def test_weight_that_no_validation_reads_is_noticed(run: Path, updates: int, monkeypatch: pytest.MonkeyPatch) -> None:
    ruin_weights_at(monkeypatch, step=updates)
    monkeypatch.setattr("nmt.training.task.functional.cross_entropy", lambda *_, **__: torch.tensor(1.0))
    with pytest.raises(UserError, match=r"weight model\.\S+ is not finite after update"):
        train(ONE_EPOCH)


def test_stored_weights_that_are_not_finite_are_skipped(
    stopped: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (best,) = (stopped / "checkpoints").glob("best-*")
    stored = torch.load(best)
    next(iter(stored["state_dict"].values())).fill_(float("inf"))
    torch.save(stored, best)
    interrupt_at(monkeypatch, step=torch.load(stopped / "checkpoints" / "last.ckpt")["global_step"])
    with pytest.raises(KeyboardInterrupt):
        train(["resume=true"])
    assert f"{best.name}: weight model." in capsys.readouterr().err
    assert all(bool(weight.isfinite().all()) for weight in weights(stopped).values())
