"""A resumed run equals an uninterrupted one, bit for bit, or reports why it cannot be resumed."""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
import shutil
from pathlib import Path
from typing import Any, BinaryIO

import pytest
import torch
from tiny import TINY, assert_same_model, check_resumed, interrupt_at, on_prepared, stop_at, summary, validations

from nmt import Translator
from nmt.commands.prepare import prepare
from nmt.commands.train import train
from nmt.config import read_yaml
from nmt.config.runs import resumed_arguments, trust_arguments
from nmt.errors import UserError

TRANSFORMER = ["encoder=transformer", "decoder=transformer", "encoder.layers=1", "decoder.layers=1"]
TRANSFORMER += ["decoder.self_attention=linear", "encoder.feedforward_size=8", "decoder.feedforward_size=8"]


PLATEAU = ["schedule=plateau", "schedule.patience=0", "training.monitor=valid_loss", "optimizer.lr=20"]
PLATEAU += ["schedule.warmup_steps=1", "training.max_epochs=5"]
TIES = ["optimizer.lr=1e-30", "training.monitor=valid_loss", "training.max_epochs=4", "training.keep_every_n_epochs=1"]
STEPS = ["training.max_epochs=null", "training.max_steps=30", "schedule=linear"]
FIXED = ("optimizer.lr=0.1", "batches.max_tokens=99", "data.train_pairs=299", "seed=2", "attention.slots=4")


@pytest.mark.parametrize(
    ("words", "stops"),
    [
        ([*STEPS, "training.ema_decay=0.9"], [27]),
        pytest.param(["training.ema_decay=0.9"], [25], marks=pytest.mark.thorough),
        pytest.param([], [0], marks=pytest.mark.slow),
        pytest.param(["schedule=linear"], [24], marks=pytest.mark.slow),  # the last update of an epoch
        *(
            pytest.param(*case, marks=pytest.mark.thorough)
            for case in (
                (["batches.accumulate=2", "schedule=linear"], [2]),
                (["batches.accumulate=2", "training.average_checkpoints=2", "training.max_epochs=3"], [12]),
                ([*TRANSFORMER, "schedule=linear"], [25]),
                (["encoder=gru", "decoder=gru", "decoder.input_feeding=true"], [25]),
                (PLATEAU, [26]),
                (["training.validate_every=10", "training.max_epochs=4", "batches.accumulate=2"], [7, 20]),
                (STEPS, [2, 24, 27, 29]),  # within both epochs, and at their ends
            )
        ),
    ],
)
def test_stopped_run_equals_the_uninterrupted_one(run: Path, words: list[str], stops: list[int]) -> None:
    check_resumed([*TINY, "batches.max_tokens=300", *words], stops)


@pytest.mark.thorough
@pytest.mark.parametrize("words", [PLATEAU, TIES])
def test_killed_run_continues_after_its_last_complete_epoch(run: Path, words: list[str]) -> None:
    """The metrics of the updates that it repeats are logged once."""
    check_resumed([*TINY, "batches.max_tokens=300", *words], [71], killed=True)


@pytest.mark.thorough
def test_moved_run_keeps_its_best_model(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stop_at(25, [*TINY, "batches.max_tokens=300", "training.monitor=valid_loss"])  # in the second epoch
    moved = run.rename(run.parent / "moved")
    shutil.copytree(moved, run)
    monkeypatch.setattr("nmt.training.task.functional.cross_entropy", lambda *_, **__: torch.tensor(1e6))
    train(["name=moved", "resume=true"])  # every later epoch is worse
    assert summary(moved)["valid_best"] < 100
    assert_same_model(moved, run)


def test_settings_fixed_at_the_start_cannot_change(stopped: Path) -> None:
    before = [(stopped / name).read_text() for name in ("arguments.json", "config.yaml")]
    for word in FIXED:
        started = rf"^resume=true: {re.escape(word)}: runs/demo was started with {word.partition('=')[0]}=.*; remove it"
        with pytest.raises(UserError, match=started):
            train(["resume=true", word])
    for word, message in (
        ("training.max_steps=4", "the run has already made 26 updates; give 26 or more"),
        ("training.max_epochs=1", "the run is already in epoch 2; give 2 or more"),
    ):
        with pytest.raises(UserError, match=f"^{word}: {message}$"):
            train(["resume=true", word])
    assert before == [(stopped / name).read_text() for name in ("arguments.json", "config.yaml")]
    last = stopped / "checkpoints" / "last.ckpt"
    last.write_bytes(last.read_bytes()[:-1000])
    with pytest.raises(UserError, match=r"last\.ckpt: cannot be read"):
        train(["resume=true"])


@pytest.mark.thorough
def test_printed_commands_can_be_run(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [*TINY, "name=it's mine", "training.max_epochs=1", "trust=[nowhere]"]
    stop_at(3, words)
    train_command = capsys.readouterr().err.partition("continue with: nmt-train ")[2].splitlines()[0]
    train(shlex.split(train_command))
    translate_command = capsys.readouterr().out.partition("translate with: nmt-translate ")[2].partition(" <")[0]
    model, trust = shlex.split(translate_command)
    assert Path(model.partition("=")[2], "model.pt").is_file() and trust == "trust=[nowhere]"


@pytest.mark.thorough
def test_full_disk_leaves_the_last_checkpoint_intact(stopped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    last = stopped / "checkpoints" / "last.ckpt"
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


def test_secrets_do_not_enter_a_resumed_run(stopped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "hush-hush")
    for word in (r"data.train.src=[$\{oc.env:SECRET\}]", "search.max_length=${oc.env:SECRET}"):
        (stopped / "arguments.json").write_text(json.dumps([*TINY, word]))
        with pytest.raises(UserError, match="repeat it if you trust"):
            train(["resume=true"])
    (stopped / "arguments.json").write_text(json.dumps(TINY))
    text = (stopped / "config.yaml").read_text()
    (stopped / "config.yaml").write_text(text.replace("name: demo", "name: ${oc.env:SECRET}"))
    with pytest.raises(UserError, match=r"its config\.yaml is damaged"):
        train(["resume=true"])
    assert not any(b"hush-hush" in file.read_bytes() for file in stopped.rglob("*") if file.is_file())


def test_links_inside_a_resumed_run_are_refused(stopped: Path) -> None:
    victim = stopped.parents[1] / "victim"
    victim.write_text("text")
    for name in ("metrics.csv", "summary.json", "checkpoints/best.ckpt", "tensorboard", "new/x"):
        place = stopped / name
        kept = place.rename(stopped.parents[1] / "kept") if place.exists() else None
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
    run: Path, step: int, kept: str, capsys: pytest.CaptureFixture[str]
) -> None:
    stop_at(step, [*TINY, "batches.max_tokens=300"])
    assert f"stopped; {kept} is in runs/demo\n" in capsys.readouterr().err


def test_run_whose_text_was_prepared_again_is_not_resumed(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = on_prepared("mine")
    stop_at(1, prepared)
    shutil.move("mine", "first")
    swapped = [f"data.{part}.{side}=a.{file}" for part in ("train", "valid") for side, file in SWAPPED]
    prepare([*swapped, "tokenizer.vocab_size=276", "output=mine"])
    with pytest.raises(UserError, match="^data: the text was prepared again since the run started; start a new run$"):
        train(["resume=true"])
    shutil.rmtree("mine")
    on_prepared("mine")  # the same text with the same settings
    train(["resume=true"])


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
    stop_at(1, [*TINY, f"init_from={run}", "name=next"])
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


def interrupted(*_: Any) -> None:
    """Act as if Ctrl-C had been pressed."""
    raise KeyboardInterrupt
