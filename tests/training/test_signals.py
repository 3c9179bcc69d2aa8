"""Signals stop a run after it has saved."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from builders import call_before
from tiny import ONE_EPOCH, TINY, interrupt_at, last_step, metrics, summary

from nmt.commands.shell import run as run_command
from nmt.commands.train import train
from nmt.errors import Interrupted
from nmt.training.data import CorpusBatches
from nmt.training.task import TranslationTask

pytestmark = pytest.mark.attack("signals in training")


@pytest.mark.thorough
@pytest.mark.parametrize(("number", "times"), [(signal.SIGINT, 1), (signal.SIGTERM, 2), (signal.SIGHUP, 2)])
def test_exit_code_is_that_of_the_signal(
    run: Path, number: signal.Signals, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it arrives twice at once, as from timeout(1) or a closing terminal."""
    with monkeypatch.context() as patch:
        interrupt_at(patch, step=3, signal_number=number, times=times)
        patch.setattr(sys, "argv", ["nmt-train", *TINY, "batches.accumulate=2"])
        with pytest.raises(SystemExit) as ended:
            run_command(train)
    assert ended.value.code == 128 + number
    assert last_step(run) == 4  # nothing done is lost
    train(["resume=true"])
    assert summary(run)["epochs"] == 2


def test_sigterm_during_a_validation_waits_for_its_checkpoint(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def send(task: TranslationTask, batch: Any, index: int) -> None:
        if index == 0:  # a second signal, a second later, would stop at once
            signal.raise_signal(signal.SIGTERM)

    call_before(monkeypatch, TranslationTask, "validation_step", send)
    with pytest.raises(Interrupted):
        train([*TINY, "data.valid_pairs=300", "batches.max_tokens=300"])
    assert len(metrics(run, "valid_loss")) == 1 and len(list((run / "checkpoints").iterdir())) == 2


def test_sigterm_while_lightning_handles_it_stops_after_the_first_update(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lightning 2.6 sets its own handler, which calls ours, between the start of ``fit`` and ``on_train_start``."""

    def send(data: CorpusBatches) -> None:
        if getattr(signal.getsignal(signal.SIGTERM), "__self__", None) is None:  # a method of LastCheckpoint is ours
            signal.raise_signal(signal.SIGTERM)

    call_before(monkeypatch, CorpusBatches, "train_dataloader", send)
    with pytest.raises(Interrupted):
        train(ONE_EPOCH)
    assert last_step(run) == 1


@pytest.mark.thorough
def test_handlers_are_restored_and_ignored_signals_stay_ignored(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    handlers = [signal.getsignal(number) for number in numbers]
    interrupt_at(monkeypatch, step=1, signal_number=signal.SIGHUP)
    train(ONE_EPOCH)
    assert [signal.getsignal(number) for number in numbers] == handlers
    assert (run / "summary.json").is_file()
