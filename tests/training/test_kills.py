"""A run that is killed at any moment resumes, and ends with the model of the uninterrupted run."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from attack_table import Trials
from kills import KILLED, train_in_child
from tiny import SMALL, TINY, assert_same_run, stop_at, weights

from nmt.commands.train import train
from nmt.errors import UserError

pytestmark = [pytest.mark.attack("kill -9 in training"), pytest.mark.thorough]
WORDS = [*TINY, "training.max_epochs=3", "training.monitor=valid_loss", "batches.max_tokens=1500"]
BETWEEN = "rename best-epoch=1-.*before rename last"  # the new best checkpoint is written, the last one is not


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The uninterrupted run."""
    folder = tmp_path_factory.mktemp("uninterrupted")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert train_in_child(WORDS)[0] == 0
    return folder / "runs" / "demo"


def resume_killed_run(run: Path, uninterrupted: Path, kill_at: str | int) -> bool:
    """Kill a run and resume it. Return False if it had not yet written a checkpoint, or had already ended."""
    code, events = train_in_child(WORDS, kill_at)
    assert code == KILLED, events
    if (run / "summary.json").is_file():
        return False
    if not (run / "checkpoints" / "last.ckpt").is_file():
        with pytest.raises(UserError, match="stopped before its first checkpoint; remove it and start again"):
            train(["resume=true"])
        return False
    train(["resume=true"])
    assert_same_run(run, uninterrupted)
    return True


@pytest.mark.parametrize(
    "moment",
    [
        "after rename best-epoch=1-",
        BETWEEN,
        "rename best-epoch=2-.*after rename last",
        "before delete best-",
        "update 7",
    ],
)
def test_killed_run_ends_as_the_uninterrupted_one(run: Path, uninterrupted: Path, moment: str) -> None:
    assert resume_killed_run(run, uninterrupted, moment)


@pytest.mark.parametrize(
    ("words", "moment", "continues_at"),
    [
        (["training.checkpoint_every=3"], "update 5", 3),  # in the first epoch: no model was validated yet
        (["training.checkpoint_every=3", "batches.accumulate=2"], "update 7", 6),
    ],
)
def test_killed_run_continues_within_an_epoch(
    run: Path, tmp_path: Path, words: list[str], moment: str, continues_at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [*SMALL, "batches.max_tokens=150", *words]
    other = tmp_path / "other"
    other.mkdir()
    with monkeypatch.context() as patch:
        patch.chdir(other)
        train(words)
    code, events = train_in_child(words, moment)
    assert code == KILLED, events
    assert torch.load(run / "checkpoints" / "last.ckpt")["global_step"] == continues_at
    train(["resume=true"])
    assert_same_run(run, other / "runs" / "demo")


def test_run_killed_between_its_two_checkpoints_has_a_model_when_stopped_again(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, events = train_in_child(WORDS, BETWEEN)
    assert code == KILLED and not any("delete best-" in event for event in events)
    assert len(list((run / "checkpoints").glob("best-*"))) == 2
    stop_at(torch.load(run / "checkpoints" / "last.ckpt")["global_step"], ["resume=true"])
    (best,) = (run / "checkpoints").glob("best-*")
    stored = {f"model.{name}": weight for name, weight in weights(run).items()}
    expected = torch.load(best)["state_dict"]
    assert best.name.startswith("best-epoch=0-")  # the epoch that the last checkpoint knows
    assert all(torch.equal(stored[name], weight) for name, weight in expected.items())


@pytest.mark.parametrize(
    ("keep", "damage"),
    [
        (1, "missing"),
        (2, "damaged"),
        pytest.param(1, "damaged", marks=pytest.mark.slow),
        pytest.param(2, "missing", marks=pytest.mark.slow),
    ],
)
def test_lost_best_checkpoint_falls_back_to_what_exists(
    run: Path, damage: str, keep: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stop_at(25, [*WORDS, "batches.max_tokens=600", f"training.keep_best={keep}", "training.max_epochs=9"])
    checkpoints = run / "checkpoints"
    best = sorted(checkpoints.glob("best-*"))
    assert len(best) == keep
    if damage == "missing":
        best[-1].unlink()
    else:
        best[-1].write_bytes(best[-1].read_bytes()[:1000])
    step = torch.load(checkpoints / "last.ckpt")["global_step"]
    stop_at(step, ["resume=true"])
    assert f"{best[-1].name}: " in capsys.readouterr().err
    expected = torch.load(best[0] if keep == 2 else checkpoints / "last.ckpt")["state_dict"]
    assert all(torch.equal(expected[f"model.{name}"], weight) for name, weight in weights(run).items())
    train(["resume=true"])
    assert (run / "summary.json").is_file()


@pytest.mark.slow
def test_run_killed_at_any_change_of_its_folder_ends_as_the_uninterrupted_one(
    tmp_path: Path, uninterrupted: Path, trials: Trials, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = len((uninterrupted.parents[1] / "events.log").read_text().splitlines())
    resumed = 0
    for moment in range(events):
        place = tmp_path / str(moment)
        place.mkdir()
        monkeypatch.chdir(place)
        resumed += resume_killed_run(place / "runs" / "demo", uninterrupted, moment)
        trials.add()
    print(f"{events} kills, {resumed} resumed")
    assert resumed > events / 3
