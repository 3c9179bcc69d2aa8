"""``training.max_steps`` ends a run after exactly that many updates, also one that was interrupted or continued."""

from __future__ import annotations

import csv
import json
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from test_starting import printed_commands
from tiny import TINY, interrupt_at, record_batches, validations

from nmt.commands.train import train
from nmt.config import train_config
from nmt.errors import UserError

# Without attention, a run ends sooner: it draws no alignments.
WORDS = [*(word for word in TINY if word != "attention.slots=3"), "attention=none", "training.max_epochs=null"]
WORDS += ["data.train_pairs=60", "data.test_pairs=2", "batches.max_tokens=100", "schedule=constant"]


@pytest.fixture(scope="module")
def per_epoch(tmp_path_factory: pytest.TempPathFactory) -> int:
    """The number of batches of an epoch."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("epoch"))
        batches = record_batches(patch)
        train([*WORDS, "training.max_epochs=1"])
    return len(batches)


def updates(run: Path) -> int:
    count: int = json.loads((run / "summary.json").read_text())["updates"]
    return count


def weights(run: Path) -> dict[str, torch.Tensor]:
    stored: dict[str, torch.Tensor] = torch.load(run / "model.pt")["weights"]
    return stored


def assert_equal_runs(run: Path, expected: Path) -> None:
    """Assert that two runs have the same weights, validations and summary, except for times and the name."""
    assert all(torch.equal(weights(run)[name], weight) for name, weight in weights(expected).items())
    assert validations(run) == validations(expected)
    first, second = (json.loads((folder / "summary.json").read_text()) for folder in (run, expected))
    assert all(first[key] == second[key] for key in ("epochs", "updates", "kept_epoch", "valid_best", "test"))


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
        assert updates(folder) == most
        # One validation at the end of each epoch, and one after the last update.
        assert validations(folder)[-1][0] == str(most - 1)
        assert len(validations(folder)) == complete + (rest > 0)
        assert torch.load(folder / "checkpoints" / "last.ckpt", weights_only=True)["global_step"] == most


@pytest.mark.thorough
def test_first_limit_ends_the_run(run: Path, per_epoch: int) -> None:
    train([*WORDS, "training.max_epochs=1", f"training.max_steps={per_epoch + 1}"])
    assert updates(run) == per_epoch
    train([*WORDS, "training.max_epochs=9", f"training.max_steps={per_epoch + 1}", "name=steps"])
    assert updates(run.parent / "steps") == per_epoch + 1


def test_interrupted_run_equals_the_uninterrupted_one(
    run: Path, per_epoch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Interrupted in the first epoch, at its end, in the epoch that max_steps ends, and at the last update."""
    most = per_epoch + 5
    words = [*WORDS, f"training.max_steps={most}", "schedule=linear"]
    batches = record_batches(monkeypatch)
    train([*words, "name=uninterrupted"])
    expected = batches.copy()
    batches.clear()
    for step in (2, per_epoch - 1, per_epoch + 2, most - 1):
        with monkeypatch.context() as patch:
            interrupt_at(patch, step=step, signal_number=signal.SIGTERM)
            with pytest.raises(KeyboardInterrupt):
                train(["resume=true"] if batches else words)
    train(["resume=true"])
    assert batches == expected
    assert_equal_runs(run, run.parent / "uninterrupted")


def test_run_that_dies_before_its_report_makes_no_more_updates(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = [*WORDS, "training.max_steps=3"]
    train([*words, "name=uninterrupted"])

    def die(*_: Any) -> None:
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr("nmt.training.run.report", die)
        with pytest.raises(SystemExit):
            train(words)
    train(["resume=true"])
    assert_equal_runs(run, run.parent / "uninterrupted")


def test_linear_schedule_ends_at_max_steps(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[float] = []
    original = torch.optim.Adam.step

    def step(self: torch.optim.Adam, *args: Any, **closure: Any) -> Any:
        used.append(self.param_groups[0]["lr"])
        return original(self, *args, **closure)

    monkeypatch.setattr(torch.optim.Adam, "step", step)
    words = ["schedule=linear", "schedule.warmup_steps=2", "optimizer.lr=1", "training.max_epochs=9"]
    train([*WORDS, *words, "training.max_steps=6"])
    # Update 0 and 1 warm up; the others fall by a quarter each, so that a seventh update would have the rate 0.
    assert used[-6:] == pytest.approx([0.5, 1, 1, 0.75, 0.5, 0.25])


@pytest.mark.thorough
def test_printed_command_continues_a_finished_run(run: Path, per_epoch: int) -> None:
    train([*WORDS, f"training.max_steps={per_epoch - 3}"])
    with pytest.raises(UserError, match=f"has finished after {per_epoch - 3} updates; for {per_epoch - 3} more") as e:
        train(["resume=true"])
    with pytest.raises(UserError, match="has finished after"):
        train(["resume=true", f"training.max_steps={per_epoch - 3}"])
    with pytest.raises(UserError, match="has finished after"):
        train(["resume=true", "training.max_epochs=99"])  # does not raise the limit that ended the run
    train(printed_commands(str(e.value))[0])
    assert updates(run) == 2 * (per_epoch - 3)
    with (run / "metrics.csv").open(newline="") as file:
        steps = [int(row["step"]) for row in csv.DictReader(file)]
    assert steps == sorted(steps) and steps[-1] == 2 * (per_epoch - 3) - 1


def test_fewer_updates_than_already_made_are_rejected(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        interrupt_at(patch, step=4)
        with pytest.raises(KeyboardInterrupt):
            train([*WORDS, "training.max_steps=9"])
    with pytest.raises(UserError, match=r"^training\.max_steps=4: the run has already made 5 updates; give 5 or more$"):
        train(["resume=true", "training.max_steps=4"])


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["training.max_steps=0"], "training.max_steps=0: must be at least 1"),
        (
            ["training.max_epochs=null", "training.patience=null"],
            "training.max_epochs=null: training would never end; set training.max_steps or training.max_epochs",
        ),
        (
            ["training.max_epochs=null", "schedule=linear"],
            "training.max_epochs=null: Linear needs the number of updates; set training.max_steps or max_epochs",
        ),
    ],
)
def test_endless_training_is_rejected(words: list[str], problem: str) -> None:
    with pytest.raises(UserError) as error:
        train_config(words)
    assert str(error.value).startswith(problem)
    train_config(["training.max_epochs=null"])  # training.patience ends it
