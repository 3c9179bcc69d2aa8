"""A resumed run equals an uninterrupted one, bit for bit, or reports why it cannot be resumed."""

from __future__ import annotations

import errno
import json
import math
import os
import re
import shlex
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import pytest
import torch
from tiny import TINY, interrupt_at, on_prepared, rates, record_batches, validations

from nmt import Translator
from nmt.commands.prepare import prepare
from nmt.commands.runs import resumed_arguments, trust_arguments
from nmt.commands.train import train
from nmt.config import read_yaml
from nmt.errors import UserError
from nmt.training.task import TranslationTask

TRANSFORMER = ["encoder=transformer", "decoder=transformer", "encoder.layers=1", "decoder.layers=1"]
TRANSFORMER += ["decoder.self_attention=linear", "encoder.feedforward_size=8", "decoder.feedforward_size=8"]


@pytest.mark.thorough
def test_run_resumes_after_an_interruption(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupt_at(monkeypatch, step=3)
    with pytest.raises(KeyboardInterrupt):
        train([*TINY])
    assert Translator.load(run).translate(["ban"])  # the model can be used already
    monkeypatch.undo()
    monkeypatch.chdir(run.parents[1])
    with pytest.raises(UserError, match=r"slots=4: runs/demo was started with attention\.slots=3; remove it"):
        train(["resume=true", "attention.slots=4"])
    train(["resume=true"])  # with the settings of its start
    assert json.loads((run / "summary.json").read_text())["epochs"] == 2
    assert not (run.parent / "demo-2").exists()


@pytest.mark.parametrize(
    ("step", "accumulate", "schedule", "model"),
    [
        pytest.param(0, 1, "inverse_sqrt", [], marks=pytest.mark.slow),
        pytest.param(2, 2, "linear", [], marks=pytest.mark.thorough),
        pytest.param("last of the epoch", 1, "linear", [], marks=pytest.mark.slow),
        pytest.param("last of the epoch", 2, "inverse_sqrt", [], marks=pytest.mark.thorough),
        pytest.param(25, 1, "linear", TRANSFORMER, marks=pytest.mark.thorough),
        (25, 1, "inverse_sqrt", ["training.ema_decay=0.9"]),
    ],
)
def test_resumed_run_makes_the_same_updates(
    run: Path, step: int | str, accumulate: int, schedule: str, model: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [*TINY, *model, "batches.max_tokens=300", f"batches.accumulate={accumulate}", f"schedule={schedule}"]
    batches = record_batches(monkeypatch)
    train([*words, "name=uninterrupted"])
    expected, updates_per_epoch = batches.copy(), math.ceil(len(batches) / 2 / accumulate)
    batches.clear()
    with monkeypatch.context() as patch:
        interrupt_at(patch, step=updates_per_epoch - 1 if isinstance(step, str) else step)
        with pytest.raises(KeyboardInterrupt):
            train(words)
    assert 0 < len(batches) < len(expected)
    assert Translator.load(run).translate(["ban"])  # the model can be used already
    train(["resume=true"])
    assert batches == expected
    assert validations(run) == validations(run.parent / "uninterrupted")
    weights = torch.load(run / "model.pt")["weights"]
    expected_weights = torch.load(run.parent / "uninterrupted" / "model.pt")["weights"]
    assert all(torch.equal(weights[name], expected_weights[name]) for name in weights)  # so dropout was the same too


@pytest.mark.thorough
def test_killed_run_continues_after_its_last_complete_epoch(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also without progress since: the learning rate is almost 0, so all epochs are equally good."""
    batches = record_batches(monkeypatch)
    words = [*TINY, "optimizer.lr=1e-30", "training.monitor=valid_loss", "training.max_epochs=4"]
    train([*words, "training.max_epochs=3", "name=three"])
    three_epochs = len(batches)

    batches.clear()
    with monkeypatch.context() as patch:
        patch.setattr("nmt.training.logs.LiveProgress.on_train_epoch_start", die_in_epoch(3))
        with pytest.raises(SystemExit):
            train(words)
    assert len(batches) == three_epochs
    train(["resume=true"])
    assert len(batches) == three_epochs // 3 * 4


@pytest.mark.thorough
def test_moved_run_keeps_its_best_model(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        interrupt_at(patch, step=25)  # in the second epoch
        with pytest.raises(KeyboardInterrupt):
            train([*TINY, "batches.max_tokens=300", "training.monitor=valid_loss"])
    best = torch.load(run / "model.pt")["weights"]
    run.rename(run.parent / "moved")
    monkeypatch.setattr("nmt.training.task.functional.cross_entropy", lambda *_, **__: torch.tensor(1e6))
    train(["name=moved", "resume=true"])  # every later epoch is worse
    summary = json.loads((run.parent / "moved" / "summary.json").read_text())
    assert summary["valid_best"] < 100
    for name, weight in torch.load(run.parent / "moved" / "model.pt")["weights"].items():
        assert torch.equal(weight, best[name]), name


@pytest.mark.thorough
@pytest.mark.parametrize("word", ["optimizer.lr=0.1", "batches.max_tokens=99", "data.train_pairs=299", "seed=2"])
def test_settings_fixed_at_the_start_cannot_change(run: Path, word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        interrupt_at(patch, step=3)
        with pytest.raises(KeyboardInterrupt):
            train([*TINY, "training.max_epochs=3"])
    with pytest.raises(
        UserError, match=re.escape(f"resume=true: {word}: runs/demo was started with {word.partition('=')[0]}=")
    ):
        train(["resume=true", word])
    last = run / "checkpoints" / "last.ckpt"
    content = last.read_bytes()
    last.write_bytes(content[: len(content) // 2])
    with pytest.raises(UserError, match=r"last\.ckpt: cannot be read"):
        train(["resume=true"])
    last.write_bytes(content)
    train(["resume=true", "training.max_epochs=1"])
    assert json.loads((run / "summary.json").read_text())["epochs"] == 1


@pytest.mark.thorough
def test_terminated_run_can_be_resumed(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        interrupt_at(patch, step=3, signal_number=signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            train([*TINY])
    train(["resume=true"])
    assert json.loads((run / "summary.json").read_text())["epochs"] == 2


@pytest.mark.thorough
def test_printed_commands_can_be_run(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [*TINY, "name=it's mine", "training.max_epochs=1", "trust=[nowhere]"]
    with monkeypatch.context() as patch:
        interrupt_at(patch, step=3)
        with pytest.raises(KeyboardInterrupt):
            train(words)
    train_command = capsys.readouterr().err.partition("continue with: nmt-train ")[2].splitlines()[0]
    train(shlex.split(train_command))
    translate_command = capsys.readouterr().out.partition("translate with: nmt-translate ")[2].partition(" <")[0]
    model, trust = shlex.split(translate_command)
    assert Path(model.partition("=")[2], "model.pt").is_file() and trust == "trust=[nowhere]"


@pytest.mark.thorough
def test_full_disk_leaves_the_last_checkpoint_intact(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        interrupt_at(patch, step=3)
        with pytest.raises(KeyboardInterrupt):
            train([*TINY])
    last = run / "checkpoints" / "last.ckpt"
    before = last.read_bytes()

    def fail_halfway(stored: Any, file: BinaryIO) -> None:
        file.write(b"incomplete")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(torch, "save", fail_halfway)
        with pytest.raises(UserError, match=r"runs/demo/checkpoints/.*No space left"):
            train(["resume=true"])
    assert last.read_bytes() == before
    assert not list(last.parent.glob(".*.partial"))
    train(["resume=true"])


@pytest.mark.parametrize("word", ["trust=[subprocess]", "++trust=[subprocess]", "--config-dir=conf"])
def test_stored_arguments_cannot_grant_trust(tmp_path: Path, word: str) -> None:
    (tmp_path / "arguments.json").write_text(json.dumps(["attention=memory", word]))
    with pytest.raises(UserError, match="repeat it if you trust"):
        resumed_arguments(tmp_path, ["resume=true"])
    repeated = word.lstrip("+").replace("=conf", "=mine")
    assert resumed_arguments(tmp_path, ["resume=true", repeated]) == ["attention=memory", "resume=true", repeated]


@pytest.mark.parametrize(
    "word",
    [
        *(
            "search.max_length=${oc.env:SECRET}",
            "+a='${oc.env:SECRET}'",
            "a=[${oc.env:SECRET}]",
            "a={b:${oc.env:SECRET}}",
        ),
        *(r"data.train.src=[$\{oc.env:SECRET\}]", r"a=[\$\{oc.env:SECRET\}]", "a=${attention}", "${oc.env:SECRET}=a"),
        *("attention=../../secret", "+experiment=../secret", "+experiment@data=../secret", "attention=[../secret]"),
    ],
)
def test_stored_arguments_are_plain_text(tmp_path: Path, word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "arguments.json").write_text(json.dumps(["attention=memory", word]))
    with pytest.raises(UserError, match="repeat it if you trust"):
        resumed_arguments(tmp_path, ["resume=true"])
    assert word in trust_arguments(["attention=memory", word])  # so an interrupted run says how to resume it


@pytest.mark.parametrize("word", ["runs=../runs", "data.train.src=../a.en", "name=a..b", "search.max_length=8"])
def test_ordinary_arguments_are_resumed(tmp_path: Path, word: str) -> None:
    (tmp_path / "arguments.json").write_text(json.dumps([word]))
    assert resumed_arguments(tmp_path, ["resume=true"]) == [word, "resume=true"]


def test_secrets_do_not_enter_a_resumed_run(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "hush-hush")
    interrupt_at(monkeypatch, step=1)
    with pytest.raises(KeyboardInterrupt):
        train(TINY)
    for word in (r"data.train.src=[$\{oc.env:SECRET\}]", "search.max_length=${oc.env:SECRET}"):
        (run / "arguments.json").write_text(json.dumps([*TINY, word]))
        with pytest.raises(UserError, match="repeat it if you trust"):
            train(["resume=true"])
    (run / "arguments.json").write_text(json.dumps(TINY))
    text = (run / "config.yaml").read_text()
    (run / "config.yaml").write_text(text.replace("name: demo", "name: ${oc.env:SECRET}"))
    with pytest.raises(UserError, match=r"its config\.yaml is damaged"):
        train(["resume=true"])
    assert not any(b"hush-hush" in file.read_bytes() for file in run.rglob("*") if file.is_file())


def test_links_inside_a_resumed_run_are_refused(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupt_at(monkeypatch, step=1)
    with pytest.raises(KeyboardInterrupt):
        train(TINY)
    victim = run.parents[1] / "victim"
    victim.write_text("text")
    for name in ("metrics.csv", "summary.json", "checkpoints/best.ckpt", "tensorboard", "new/x"):
        place = run / name
        kept = place.rename(run.parents[1] / "kept") if place.exists() else None
        place.parent.mkdir(exist_ok=True)
        place.symlink_to(victim if name != "summary.json" else "absent")
        with pytest.raises(UserError, match=rf"runs/demo/{name}: a symbolic link inside a result folder; replace it"):
            train(["resume=true"])
        place.unlink()
        if kept:
            kept.rename(place)
    assert victim.read_text() == "text"


def test_run_on_a_prepared_folder_resumes_with_its_case(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = on_prepared("mine", "data.lowercase=true")
    interrupt_at(monkeypatch, step=1)
    with pytest.raises(KeyboardInterrupt):
        train(prepared)
    monkeypatch.undo()
    monkeypatch.chdir(run.parents[1])
    train(["resume=true"])
    assert read_yaml(run / "config.yaml")["tokenizer"]["vocab_size"] == 276
    translator = Translator.load(run)
    assert translator.lowercase and translator.encode("BAN Des") == translator.encode("ban des")
    with pytest.raises(UserError, match="its source tokenizer is not that of the prepared text"):
        train([*on_prepared("other"), f"init_from={run}"])


SWAPPED = (("src", "tgt"), ("tgt", "src"))


@pytest.mark.parametrize(("step", "kept"), [(1, "a model that was not validated yet"), (30, "the best model so far")])
def test_stopped_run_says_what_its_model_is(
    run: Path, step: int, kept: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    interrupt_at(monkeypatch, step=step)
    with pytest.raises(KeyboardInterrupt):
        train([*TINY, "batches.max_tokens=300"])
    assert f"stopped; {kept} is in runs/demo\n" in capsys.readouterr().err


def test_run_whose_text_was_prepared_again_is_not_resumed(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = on_prepared("mine")
    with monkeypatch.context() as patch:
        interrupt_at(patch, step=1)
        with pytest.raises(KeyboardInterrupt):
            train(prepared)
    shutil.move("mine", "first")
    swapped = [f"data.{part}.{side}=a.{file}" for part in ("train", "valid") for side, file in SWAPPED]
    prepare([*swapped, "tokenizer.vocab_size=276", "output=mine"])
    with pytest.raises(UserError, match="^data: the text was prepared again since the run started; start a new run$"):
        train(["resume=true"])
    shutil.rmtree("mine")
    on_prepared("mine")  # the same text with the same settings
    train(["resume=true"])


@pytest.mark.thorough
@pytest.mark.parametrize("step", [26, pytest.param("killed", marks=pytest.mark.slow)])
def test_plateau_resumes_with_the_same_rates(run: Path, step: int | str, monkeypatch: pytest.MonkeyPatch) -> None:
    words = [*TINY, "schedule=plateau", "schedule.patience=0", "training.monitor=valid_loss"]
    words += ["optimizer.lr=20", "schedule.warmup_steps=1", "training.max_epochs=5", "batches.max_tokens=300"]
    train([*words, "name=uninterrupted"])
    with monkeypatch.context() as patch:
        if isinstance(step, int):
            interrupt_at(patch, step=step)
        else:
            patch.setattr("nmt.training.logs.LiveProgress.on_train_epoch_start", die_in_epoch(3))
        with pytest.raises((KeyboardInterrupt, SystemExit)):
            train(words)
    train(["resume=true"])
    assert rates(run)[-1][1] < 20  # the rate was lowered
    assert dict(rates(run)) == dict(rates(run.parent / "uninterrupted"))


@pytest.mark.thorough
def test_killed_run_logs_each_update_once(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = [*TINY, "batches.max_tokens=100", "training.max_epochs=2"]
    train([*words, "name=uninterrupted"])
    with monkeypatch.context() as patch:
        original = TranslationTask.on_before_optimizer_step

        def die(self: TranslationTask, optimizer: torch.optim.Optimizer) -> None:
            if self.current_epoch == 1 and self.global_step % 50 == 49:
                raise SystemExit
            original(self, optimizer)

        patch.setattr(TranslationTask, "on_before_optimizer_step", die)
        with pytest.raises(SystemExit):
            train(words)
    train(["resume=true"])
    names = ("uninterrupted", "demo")
    expected, resumed = ((run.parent / name / "metrics.csv").read_text().splitlines() for name in names)
    assert [row.split(",")[:2] for row in resumed] == [row.split(",")[:2] for row in expected]


@pytest.mark.thorough
def test_run_stopped_early_trains_no_further_when_resumed(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["optimizer.lr=1e-30", "training.monitor=valid_loss", "training.patience=1", "training.max_epochs=9"]
    with monkeypatch.context() as patch:
        patch.setattr("nmt.training.run.report", interrupted)
        with pytest.raises(KeyboardInterrupt):
            train([*TINY, *words])
    assert len(validations(run)) == 2
    train(["resume=true"])
    assert len(validations(run)) == 2 and capsys.readouterr().err.count("stopped early") == 2


@pytest.mark.thorough
def test_init_from_is_read_only_at_the_start(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train([*TINY, "training.max_epochs=1"])
    with monkeypatch.context() as patch:
        interrupt_at(patch, step=1)
        with pytest.raises(KeyboardInterrupt):
            train([*TINY, f"init_from={run}", "name=next"])
    shutil.copytree(run, run.parent / "other")
    with pytest.raises(UserError, match=r"resume=true: init_from=\S*/other: runs/next was started with init_from="):
        train(["resume=true", "name=next", f"init_from={run.parent}/other"])
    run.rename(run.parent / "elsewhere")
    train(["resume=true", "name=next"])
    lengths = [torch.load(run.parent / name / "model.pt")["longest_source"] for name in ("elsewhere", "next")]
    assert lengths[0] == lengths[1]


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("arguments.json", "[", r"resume=true: \S*arguments\.json: missing or damaged; start a new run"),
        ("arguments.json", '{"a": 1}', r"arguments\.json: missing or damaged"),
        ("arguments.json", None, r"arguments\.json: missing or damaged"),
        ("config.yaml", "{a: [b", r"runs/demo: its config\.yaml is damaged"),
        ("config.yaml", None, r"runs/demo: has no config\.yaml"),
        (
            "config.yaml",
            "data: {seed: 1}",
            r"config\.yaml has no data\.\w+: damaged or of another ver",
        ),
    ],
)
def test_damaged_folder_is_reported(run: Path, file: str, text: str | None, message: str) -> None:
    (run / "checkpoints").mkdir(parents=True)
    (run / "checkpoints" / "last.ckpt").touch()
    (run / "arguments.json").write_text(json.dumps(TINY))
    if text is not None:
        (run / file).write_text(text)
    else:
        (run / file).unlink(missing_ok=True)
    with pytest.raises(UserError, match=message):
        train(["resume=true"])


def test_fewer_epochs_than_already_trained_are_rejected(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("nmt.training.logs.LiveProgress.on_train_epoch_start", die_in_epoch(2))
        with pytest.raises(SystemExit):
            train([*TINY, "training.max_epochs=3"])
    with pytest.raises(UserError, match=r"training\.max_epochs=1: the run is already in epoch 2; give 2 or more"):
        train(["resume=true", "training.max_epochs=1"])


def interrupted(*_: Any) -> None:
    """Act as if Ctrl-C had been pressed."""
    raise KeyboardInterrupt


def die_in_epoch(epoch: int) -> Callable[..., None]:
    """Return a hook of a callback that kills the run in this epoch."""

    def die(self: Any, trainer: Any, *_: Any) -> None:
        if trainer.current_epoch == epoch:
            raise SystemExit

    return die
