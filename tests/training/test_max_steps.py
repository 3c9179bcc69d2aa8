"""``training.max_steps`` ends a run after exactly that many updates, also one that was interrupted or continued."""

from __future__ import annotations

from contextlib import chdir
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from builders import call_before
from test_starting import printed_commands
from tiny import WITHOUT_ATTENTION, assert_same_run, last_step, metrics, record_batches, refuse, summary

from nmt.commands.train import train
from nmt.errors import UserError

WORDS = [*WITHOUT_ATTENTION, "training.max_epochs=null", "batches.max_tokens=100", "schedule=constant"]


@pytest.fixture(scope="module")
def per_epoch(tmp_path_factory: pytest.TempPathFactory) -> int:
    """The number of batches of an epoch."""
    with pytest.MonkeyPatch.context() as patch, chdir(tmp_path_factory.mktemp("epoch")):
        batches = record_batches(patch)
        train([*WORDS, "training.max_epochs=1"])
    return len(batches)


@pytest.mark.thorough
@pytest.mark.parametrize("accumulate", [1, 2])
def test_training_stops_after_exactly_max_steps(
    run: Path, per_epoch: int, accumulate: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = record_batches(monkeypatch)
    words = [*WORDS, f"batches.accumulate={accumulate}"]
    train([*words, "training.max_epochs=2", "name=epochs"])
    expected = batches.copy()
    of_epoch = -(-per_epoch // accumulate)
    for most in (1, of_epoch, of_epoch + 3):
        batches.clear()
        train([*words, f"training.max_steps={most}", f"name=steps{most}"])
        complete, rest = divmod(most, of_epoch)
        assert batches == expected[: complete * per_epoch + rest * accumulate]
        folder = run.parent / f"steps{most}"
        assert summary(folder)["updates"] == most
        # One validation at the end of each epoch, and one after the last update.
        validations = metrics(folder, "valid_loss")
        assert validations[-1]["step"] == str(most - 1)
        assert len(validations) == complete + (rest > 0)
        assert last_step(folder) == most


def test_validate_every_sets_the_updates_of_an_epoch(
    run: Path, per_epoch: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    batches = record_batches(monkeypatch)
    train([*WORDS, "training.max_epochs=2", "name=passes"])
    expected = batches.copy()
    batches.clear()
    every = per_epoch - 1
    train([*WORDS, f"training.validate_every={every}", f"training.max_steps={every + 2}"])
    ends = [(row["step"], row["epoch"]) for row in metrics(run, "valid_loss")]
    assert ends == [(str(every - 1), "0"), (str(every + 1), "1")]
    assert batches == expected[: every + 2]
    passes = f"an epoch is {every} updates, {every / per_epoch:.3g} passes over the training text"
    assert passes in capsys.readouterr().err


def test_run_that_dies_before_its_report_makes_no_more_updates(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = [*WORDS, "training.max_steps=3"]
    train([*words, "name=uninterrupted"])
    with monkeypatch.context() as patch:
        patch.setattr("nmt.training.run.report", Mock(side_effect=SystemExit))
        with pytest.raises(SystemExit):
            train(words)
    train(["resume=true"])
    assert_same_run(run, run.parent / "uninterrupted")


def test_linear_schedule_ends_at_max_steps(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[float] = []

    def record(optimizer: torch.optim.Adam, *_: Any, **__: Any) -> None:
        used.append(optimizer.param_groups[0]["lr"])

    call_before(monkeypatch, torch.optim.Adam, "step", record)
    words = ["schedule=linear", "schedule.warmup_steps=2", "optimizer.lr=1", "training.max_epochs=9"]
    train([*WORDS, *words, "training.max_steps=6"])
    # Update 0 and 1 warm up; the others fall by a quarter each, so that a seventh update would have the rate 0.
    assert used[-6:] == pytest.approx([0.5, 1, 1, 0.75, 0.5, 0.25])


@pytest.mark.thorough
def test_printed_command_continues_a_finished_run(run: Path, per_epoch: int) -> None:
    train([*WORDS, f"training.max_steps={per_epoch - 3}"])
    with pytest.raises(UserError, match=f"has finished after {per_epoch - 3} updates; for {per_epoch - 3} more") as e:
        train(["resume=true"])
    refuse(["resume=true", f"training.max_steps={per_epoch - 3}"], "has finished after")
    refuse(["resume=true", "training.max_epochs=99"], "has finished after")  # another limit ended the run
    refuse(["resume=true", "training.max_steps=null", "training.max_epochs=1"], "and 1 epoch; for")  # reached too
    train(printed_commands(str(e.value))[0])
    assert summary(run)["updates"] == 2 * (per_epoch - 3)
    steps = [int(row["step"]) for row in metrics(run, "step")]
    assert steps == sorted(steps) and steps[-1] == 2 * (per_epoch - 3) - 1
