"""Signals stop a run after it has saved; without them it trains in any thread."""

from __future__ import annotations

import signal
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny import TINY, assert_same_model, interrupt_at, summary, validations

from nmt.commands.shell import run as run_command
from nmt.commands.train import train
from nmt.config import train_config
from nmt.config.runs import new_folder
from nmt.errors import Interrupted
from nmt.training.data import CorpusBatches
from nmt.training.run import train_into
from nmt.training.task import TranslationTask

pytestmark = pytest.mark.attack("signals in training")
ONE_EPOCH = [*TINY, "training.max_epochs=1"]


@pytest.mark.thorough
@pytest.mark.parametrize(("number", "twice"), [(signal.SIGINT, False), (signal.SIGTERM, True), (signal.SIGHUP, True)])
def test_exit_code_is_that_of_the_signal(
    run: Path, number: signal.Signals, twice: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it arrives twice at once, as from timeout(1) or a closing terminal."""

    def stop(self: TranslationTask, batch: Any, index: int) -> Any:
        if self.global_step == 3:
            for _ in range(1 + twice):
                signal.raise_signal(number)
        return plain(self, batch, index)

    plain = TranslationTask.training_step
    with monkeypatch.context() as patch:
        patch.setattr(TranslationTask, "training_step", stop)
        patch.setattr(sys, "argv", ["nmt-train", *TINY, "batches.accumulate=2"])
        with pytest.raises(SystemExit) as ended:
            run_command(train)
    assert ended.value.code == 128 + number
    assert torch.load(run / "checkpoints" / "last.ckpt")["global_step"] == 4  # nothing done is lost
    train(["resume=true"])
    assert summary(run)["epochs"] == 2


def test_sigterm_during_a_validation_waits_for_its_checkpoint(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = TranslationTask.validation_step

    def stop(self: TranslationTask, batch: Any, index: int) -> None:
        if index == 0:  # a second signal, a second later, would stop at once
            signal.raise_signal(signal.SIGTERM)
        plain(self, batch, index)

    with monkeypatch.context() as patch:
        patch.setattr(TranslationTask, "validation_step", stop)
        with pytest.raises(Interrupted):
            train([*TINY, "data.valid_pairs=300", "batches.max_tokens=300"])
    assert len(validations(run)) == 1 and len(list((run / "checkpoints").iterdir())) == 2


@pytest.mark.thorough
def test_handlers_are_restored_and_ignored_signals_stay_ignored(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    try:
        handlers = [signal.getsignal(number) for number in numbers]
        interrupt_at(monkeypatch, step=1, signal_number=signal.SIGHUP)
        train(ONE_EPOCH)
        assert [signal.getsignal(number) for number in numbers] == handlers
    finally:
        signal.signal(signal.SIGHUP, before)
    assert (run / "summary.json").is_file()


def test_trains_in_another_thread(run: Path) -> None:
    results = []
    config = train_config(ONE_EPOCH)
    folder = new_folder(run.parent, run.name)
    thread = threading.Thread(target=lambda: results.append(train_into(folder, config)))
    thread.start()
    thread.join()
    assert results and results[0].summary["epochs"] == 1
    train([*ONE_EPOCH, "name=main"])
    assert_same_model(run, run.parent / "main")


def test_sigterm_while_lightning_handles_it_stops_after_the_first_update(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lightning 2.6 sets its own handler, which calls ours, between the start of ``fit`` and ``on_train_start``."""
    original = CorpusBatches.train_dataloader

    def train_dataloader(self: CorpusBatches) -> Any:
        if getattr(signal.getsignal(signal.SIGTERM), "__self__", None) is None:  # a method of LastCheckpoint is ours
            signal.raise_signal(signal.SIGTERM)
        return original(self)

    with monkeypatch.context() as patch:
        patch.setattr(CorpusBatches, "train_dataloader", train_dataloader)
        with pytest.raises(Interrupted):
            train(ONE_EPOCH)
    assert torch.load(run / "checkpoints" / "last.ckpt")["global_step"] == 1
