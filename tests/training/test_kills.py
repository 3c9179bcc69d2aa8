"""A run that is killed at any moment resumes, and ends with the model of the uninterrupted run."""

from __future__ import annotations

from contextlib import chdir
from pathlib import Path

import pytest
from attack_table import Trials
from kills import KILLED, train_in_child
from tiny import TINY, assert_same_run, last_step, refuse, same_weights, stop_at, stored_weights

from nmt.commands.train import train

pytestmark = [pytest.mark.attack("kill -9 in training"), pytest.mark.thorough]
WORDS = [*TINY, "training.max_epochs=3", "training.monitor=valid_loss", "batches.max_tokens=1500"]
BETWEEN = "rename best-epoch=1-.*before rename last"  # the new best checkpoint is written, the last one is not


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The uninterrupted run."""
    with chdir(folder := tmp_path_factory.mktemp("uninterrupted")):
        assert train_in_child(WORDS)[0] == 0
    return folder / "runs" / "demo"


def resume_killed_run(run: Path, uninterrupted: Path, kill_at: str | int) -> bool:
    """Kill a run and resume it. Return False if it had not yet written a checkpoint, or had already ended."""
    code, events = train_in_child(WORDS, kill_at)
    assert code == KILLED, events
    if (run / "summary.json").is_file():
        return False
    if not (run / "checkpoints" / "last.ckpt").is_file():
        refuse(["resume=true"], "stopped before its first checkpoint; delete this folder and start again")
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


def test_run_killed_between_its_two_checkpoints_has_a_model_when_stopped_again(run: Path) -> None:
    code, events = train_in_child(WORDS, BETWEEN)
    assert code == KILLED and not any("delete best-" in event for event in events)
    assert len(list((run / "checkpoints").glob("best-*"))) == 2
    stop_at(last_step(run), ["resume=true"])
    (best,) = (run / "checkpoints").glob("best-*")
    assert best.name.startswith("best-epoch=0-")  # the epoch that the last checkpoint knows
    assert same_weights(stored_weights(run / "model.pt"), stored_weights(best))


@pytest.mark.parametrize(("keep", "damage"), [(1, "missing"), (2, "damaged")])
def test_lost_best_checkpoint_falls_back_to_what_exists(
    run: Path, damage: str, keep: int, capsys: pytest.CaptureFixture[str]
) -> None:
    stop_at(25, [*WORDS, "batches.max_tokens=600", f"training.keep_best={keep}", "training.max_epochs=9"])
    checkpoints = run / "checkpoints"
    *others, best = sorted(checkpoints.glob("best-*"))
    assert len(others) == keep - 1
    if damage == "missing":
        best.unlink()
    else:
        best.write_bytes(best.read_bytes()[:1000])
    stop_at(last_step(run), ["resume=true"])
    assert f"{best.name}: " in capsys.readouterr().err
    assert same_weights(stored_weights(run / "model.pt"), stored_weights(*others or [checkpoints / "last.ckpt"]))
    train(["resume=true"])
    assert (run / "summary.json").is_file()


@pytest.mark.slow
def test_run_killed_at_any_change_of_its_folder_ends_as_the_uninterrupted_one(
    tmp_path: Path, uninterrupted: Path, trials: Trials
) -> None:
    events = len((uninterrupted.parents[1] / "events.log").read_text().splitlines())
    resumed = 0
    for moment in range(events):
        place = tmp_path / str(moment)
        place.mkdir()
        with chdir(place):
            resumed += resume_killed_run(place / "runs" / "demo", uninterrupted, moment)
        trials.add()
    print(f"{events} kills, {resumed} resumed")
    assert resumed > events / 3
