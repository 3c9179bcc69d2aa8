"""A run that was stopped or killed, and then resumed, equals the uninterrupted one, bit for bit."""

from __future__ import annotations

import re
import shutil
import signal
import sys
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest
import torch
from builders import call_before, refusal
from kills import KILLED, train_in_child
from safetensors.torch import load_file
from tiny import (
    MODEL,
    ONE_EPOCH,
    SENTENCES,
    SMALL,
    TINY,
    assert_same_run,
    check_resumed,
    interrupt_at,
    last_step,
    metrics,
    on_prepared,
    refuse,
    same_model,
    same_weights,
    stop_at,
    stored_weights,
    summary,
)

import nmt
from nmt.commands.shell import run as run_command
from nmt.commands.train import train
from nmt.errors import Interrupted
from nmt.training.data import CorpusBatches
from nmt.training.task import TranslationTask

TRANSFORMER = ["encoder=transformer", "decoder=transformer", "encoder.layers=1", "decoder.layers=2", "schedule=linear"]
TRANSFORMER += [f"{part}.feedforward_size=8" for part in ("encoder", "decoder")]
TRANSFORMER += ["attention=nested_memory", "decoder.self_attention=linear"]
PLATEAU = ["schedule=plateau", "schedule.patience=0", "training.monitor=valid_loss", "optimizer.lr=2"]
PLATEAU += ["schedule.warmup_steps=1", "training.max_epochs=5", "training.decode_sentences=0"]
STEPS = ["training.max_epochs=null", "training.max_steps=30", "schedule=linear", "training.ema_decay=0.9"]
EVERY = ["training.validate_every=10", "training.max_epochs=3", "batches.accumulate=2"]
LATE = pytest.mark.thorough


@pytest.mark.parametrize(
    ("words", "stops", "killed_after"),
    [
        (STEPS, [4, 19], None),  # the second one at an update whose loss is logged
        pytest.param(["guide=links"], [0, 9], None, marks=LATE),  # the first update, and the last of an epoch
        pytest.param(TRANSFORMER, [12], None, marks=LATE),
        pytest.param(EVERY, [7, 20], None, marks=LATE),
        pytest.param(PLATEAU, [25], 20, marks=LATE),  # after the last complete epoch
    ],
)
def test_resumed_run_equals_the_uninterrupted_one(
    run: Path, words: list[str], stops: list[int], killed_after: int | None
) -> None:
    """Also the metrics of the updates that a killed run repeats are logged once."""
    base = [*TINY, "data.train_pairs=120", "batches.max_tokens=255"]  # 10 batches
    check_resumed([*base, *words], stops, killed_after=killed_after)


@pytest.mark.thorough
def test_run_on_prepared_text_resumes_and_checks_it(run: Path) -> None:
    words = [*on_prepared("mine", "data.lowercase=true"), "batches.max_tokens=60"]
    check_resumed(words, [3])
    assert nmt.Translator.load(run).lowercase
    stop_at(1, [*words, "name=next"])
    content = Path("mine/train.arrow").read_bytes()
    Path("mine/train.arrow").write_bytes(content.replace(b"ban", b"man", 1))
    refuse(["name=next", "resume=true"], r"train\.arrow: ")
    shutil.rmtree("mine")
    on_prepared("mine", pairs=[pair[::-1] for pair in SENTENCES])
    refuse(["name=next", "resume=true"], "^data: ")


@pytest.mark.thorough
def test_run_on_pairs_of_a_program_resumes_with_its_copy(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = [*MODEL, "tokenizer.vocab_size=276"]
    parts = {"train": SENTENCES, "valid": SENTENCES}
    nmt.train(*words, "name=whole", **parts)
    with monkeypatch.context() as patch:
        interrupt_at(patch, step=1)
        with pytest.raises(Interrupted):
            nmt.train(*words, **parts)
    nmt.train("resume=true")
    assert same_model(run, run.with_name("whole"))


@pytest.mark.thorough
def test_adapter_resumes_from_the_same_base(finished: Path) -> None:
    words = [f"init_from={finished}", "adapt=lora", "adapt.rank=2", "optimizer.lr=0.05", "schedule=constant"]
    words += ["training.max_epochs=2", "search.max_length=8", "device=cpu", "threads=1", "batches.max_tokens=300"]
    train([*words, "name=whole"])
    stop_at(7, [*words, "name=stopped"])
    shutil.move(finished / "model.pt", "base.pt")
    shutil.copy(finished / "test.source.txt", finished / "model.pt")
    refuse(["name=stopped", "resume=true"], r"model\.pt: ")
    shutil.copy("base.pt", finished / "model.pt")
    train(["name=stopped", "resume=true"])
    runs = finished.parent
    assert same_weights(*(load_file(runs / name / "adapter.safetensors") for name in ("whole", "stopped")))


@pytest.mark.thorough
def test_run_that_was_moved_keeps_its_best_model(stopped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moved = shutil.move(stopped, stopped.parent / "moved")
    best = stored_weights(next((moved / "checkpoints").glob("best-*")))
    monkeypatch.setattr("nmt.training.task.functional.cross_entropy", lambda *_, **__: torch.tensor(1e6))
    train(["name=moved", "resume=true"])  # every later epoch is worse
    assert same_weights(stored_weights(moved / "model.pt"), best)


@pytest.mark.thorough
def test_run_that_ended_by_patience_trains_no_further(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["optimizer.lr=1e-30", "training.monitor=valid_loss", "training.patience=1", "training.max_epochs=9"]
    names, run = ["runs=elsewhere", "name=it's mine"], run.parents[1] / "elsewhere" / "it's mine"
    with monkeypatch.context() as patch:
        patch.setattr("nmt.training.run.report", _interrupted)
        with pytest.raises(KeyboardInterrupt):
            train([*SMALL, *words, *names])
    train([*names, "resume=true"])
    assert len(metrics(run, "valid_loss")) == summary(run)["epochs"] == 2
    refuse([*names, "resume=true", "training.max_epochs=12"], "has finished; start a new")


def _interrupted(*_: Any) -> None:
    raise KeyboardInterrupt


@pytest.mark.thorough
def test_longer_limit_continues_a_finished_run(run: Path) -> None:
    train([*SMALL, "training.max_steps=4", "training.max_epochs=1", "batches.max_tokens=150"])
    assert (summary(run)["updates"], summary(run)["epochs"], last_step(run)) == (4, 1, 4)
    _, raised, _ = re.split("set (.*?) to train further", refusal(train, ["resume=true"]), maxsplit=1)
    train(["resume=true", *raised.split()])
    assert summary(run)["updates"] == 8
    steps = [int(row["step"]) for row in metrics(run, "step")]
    assert steps == sorted(steps) and steps[-1] == 7


# Signals.


@pytest.mark.thorough
@pytest.mark.parametrize(("number", "times"), [(signal.SIGINT, 1), (signal.SIGTERM, 2)])
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


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("owner", "name", "step"), [(TranslationTask, "validation_step", 0), (CorpusBatches, "train_dataloader", 1)]
)
def test_sigterm_at_any_time_leaves_a_checkpoint(
    run: Path, owner: type, name: str, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lightning sets its own handler of SIGTERM between the start of ``fit`` and ``on_train_start``."""
    pending = [signal.SIGTERM]

    def send(*_: Any) -> None:
        if pending:
            signal.raise_signal(pending.pop())

    call_before(monkeypatch, owner, name, send)
    with pytest.raises(Interrupted):
        train(TINY)
    assert last_step(run) == (step or last_step(run)) and len(metrics(run, "valid_loss")) == (not step)


@pytest.mark.thorough
def test_ignored_signals_stay_ignored(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    interrupt_at(monkeypatch, step=1, signal_number=signal.SIGHUP)
    train(ONE_EPOCH)
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN and (run / "summary.json").is_file()


# Damage.


@pytest.mark.thorough
@pytest.mark.parametrize(
    "change",
    [
        None,
        lambda stored: stored.pop("callbacks"),
        lambda stored: stored.update(epoch="one"),
        lambda stored: stored.update(state_dict={"x": 1}),
        lambda stored: stored["callbacks"].update(RandomState={"random": 1}),
    ],
)
def test_damaged_last_checkpoint_is_refused(stopped: Path, change: Callable[[dict[str, Any]], Any] | None) -> None:
    last = stopped / "checkpoints" / "last.ckpt"
    if change is None:
        last.write_bytes(last.read_bytes()[:-1000])
    else:
        stored = torch.load(last)
        change(stored)
        torch.save(stored, last)
    refuse(["resume=true"], r"last\.ckpt: ")


@pytest.mark.thorough
@pytest.mark.parametrize("damaged", [False, True])
def test_lost_best_checkpoint_falls_back_to_the_last(stopped: Path, damaged: bool) -> None:
    (best,) = (stopped / "checkpoints").glob("best-*")
    best.write_bytes(best.read_bytes()[:1000]) if damaged else best.unlink()
    stop_at(last_step(stopped), ["resume=true"])
    assert same_weights(stored_weights(stopped / "model.pt"), stored_weights(stopped / "checkpoints" / "last.ckpt"))


# Kills at the changes of the folder.

WORDS = [*TINY, "training.max_epochs=3", "training.monitor=valid_loss", "batches.max_tokens=1500"]


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
    if (run / "summary.json").is_file() or not (run / "checkpoints" / "last.ckpt").is_file():
        return False
    train(["resume=true"])
    assert_same_run(run, uninterrupted)
    return True


@pytest.mark.thorough
@pytest.mark.parametrize(
    "moment",
    [
        "after delete best-epoch=0",
        "rename best-epoch=1.*before rename last",  # the new best checkpoint is written, the last one is not
    ],
)
def test_killed_run_ends_as_the_uninterrupted_one(run: Path, uninterrupted: Path, moment: str) -> None:
    assert resume_killed_run(run, uninterrupted, moment)


@pytest.mark.slow
def test_run_killed_at_any_change_of_its_folder_ends_as_the_uninterrupted_one(
    tmp_path: Path, uninterrupted: Path
) -> None:
    events = len((uninterrupted.parents[1] / "events.log").read_text().splitlines())
    resumed = 0
    for moment in range(events):
        place = tmp_path / str(moment)
        place.mkdir()
        with chdir(place):
            resumed += resume_killed_run(place / "runs" / "demo", uninterrupted, moment)
    assert resumed > events / 3
