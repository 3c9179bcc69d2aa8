"""A resumed run equals an uninterrupted one, bit for bit, or reports why it cannot be resumed."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
from builders import expect_error, write_parts
from tiny import (
    MODEL,
    SENTENCES,
    SMALL,
    TINY,
    check_resumed,
    metrics,
    on_prepared,
    refuse,
    same_model,
    stop_at,
)

from nmt import Translator
from nmt.commands.train import train
from nmt.config.init_from import read_yaml
from nmt.config.runs import resumed_arguments, trust_arguments
from nmt.errors import UserError
from nmt.text import shards

TRANSFORMER = ["encoder=transformer", "decoder=transformer", "encoder.layers=1", "decoder.layers=1"]
TRANSFORMER += ["decoder.self_attention=linear", "encoder.feedforward_size=8", "decoder.feedforward_size=8"]
PLATEAU = ["schedule=plateau", "schedule.patience=0", "training.monitor=valid_loss", "optimizer.lr=20"]
PLATEAU += ["schedule.warmup_steps=1", "training.max_epochs=5"]
TIES = ["optimizer.lr=1e-30", "training.monitor=valid_loss", "training.max_epochs=4", "training.keep_best=4"]
STEPS = ["training.max_epochs=null", "training.max_steps=30", "schedule=linear"]
AVERAGED = ["batches.accumulate=2", "training.average_checkpoints=2", "training.max_epochs=3"]
EVERY = ["training.validate_every=10", "training.max_epochs=4"]
LATE = pytest.mark.thorough
FIXED = ("optimizer.lr=0.1", "batches.max_tokens=99", "data.train_pairs=299", "seed=2", "attention.slots=4")


@pytest.mark.parametrize(
    ("words", "stops"),
    [
        ([*STEPS, "training.ema_decay=0.9"], [19, 27]),  # the first one at an update whose loss is logged
        pytest.param(["training.ema_decay=0.9"], [25], marks=LATE),
        pytest.param([], [0], marks=pytest.mark.slow),
        pytest.param(["schedule=linear"], [24], marks=pytest.mark.slow),  # the last update of an epoch
        pytest.param(["batches.accumulate=2", "schedule=linear"], [2], marks=LATE),
        pytest.param(AVERAGED, [12], marks=LATE),
        pytest.param([*TRANSFORMER, "schedule=linear"], [25], marks=LATE),
        pytest.param(["encoder=gru", "decoder=gru", "decoder.input_feeding=true"], [25], marks=LATE),
        pytest.param(["decoder=mingru", "decoder.layers=2"], [25], marks=LATE),
        pytest.param(PLATEAU, [26], marks=LATE),
        pytest.param([*EVERY, "batches.accumulate=2"], [7, 20], marks=LATE),
        pytest.param(STEPS, [2, 24, 27, 29], marks=LATE),  # within both epochs, and at their ends
    ],
)
def test_stopped_run_equals_the_uninterrupted_one(run: Path, words: list[str], stops: list[int]) -> None:
    check_resumed([*TINY, "batches.max_tokens=300", *words], stops)


def test_a_run_is_resumed_without_the_files_of_its_text(run: Path) -> None:
    Path("text").mkdir()
    files = write_parts(Path("text"), {"train": SENTENCES, "valid": SENTENCES})
    words = [*MODEL, "data=text", "tokenizer.vocab_size=276", *files]
    stop_at(1, words)
    Path("text").rename("moved")
    train(["name=demo", "resume=true"])
    assert (run / "summary.json").is_file()
    refuse([*words, "name=new", "resume=true"], "no such file")


def test_edited_text_has_no_effect_on_a_resumed_run_and_is_named(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("text").mkdir()
    files = write_parts(Path("text"), {"train": SENTENCES, "valid": SENTENCES})
    stop_at(1, [*MODEL, "data=text", "tokenizer.vocab_size=276", *files])
    stop = ["name=demo", "resume=true", "training.max_steps=2"]
    train(stop)
    assert "since this run was started" not in capsys.readouterr().err
    edited = files[0].partition("=")[2]
    Path(edited).write_text("another text\n")
    train([*stop[:2], "training.max_steps=3"])
    warning = f"warning: runs/demo: {edited} changed since this run was started; it keeps its copy of the text\n"
    assert warning in capsys.readouterr().err


def test_damaged_checkpoint_is_replaced_by_an_earlier_one(stopped: Path) -> None:
    last = stopped / "checkpoints" / "last.ckpt"
    last.write_bytes(last.read_bytes()[:-1000])
    with pytest.raises(UserError, match="may be truncated .*; to continue from an earlier one: (.*)") as caught:
        train(["resume=true"])
    subprocess.run(str(caught.value).partition("earlier one: ")[2], shell=True, check=True)
    train(["resume=true"])
    train([*TINY, "batches.max_tokens=300", "name=whole"])
    assert same_model(stopped, Path("runs/whole"))
    for file in last.parent.iterdir():
        file.unlink() if file != last else last.write_bytes(b"")
    refuse(["resume=true", "training.max_epochs=9"], "may be truncated .*; start a new run")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("words", "killed_at", "continues_at"),
    [
        (PLATEAU, 71, 50),  # after the last complete epoch
        (TIES, 71, 50),
        (["training.checkpoint_every=3"], 5, 3),  # no model was validated yet
        (["training.checkpoint_every=3", "batches.accumulate=2"], 7, 6),
    ],
)
def test_killed_run_equals_the_uninterrupted_one(
    run: Path, words: list[str], killed_at: int, continues_at: int
) -> None:
    """The metrics of the updates that it repeats are logged once."""
    check_resumed([*TINY, "batches.max_tokens=300", *words], [killed_at], killed_after=continues_at)


@pytest.mark.thorough
def test_moved_run_keeps_its_best_model(stopped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moved = shutil.copytree(stopped, stopped.parent / "moved")
    shutil.move(stopped / "checkpoints", "elsewhere")
    monkeypatch.setattr("nmt.training.task.functional.cross_entropy", lambda *_, **__: torch.tensor(1e6))
    train(["name=moved", "resume=true"])  # every later epoch is worse
    assert same_model(moved, stopped)


def test_settings_fixed_at_the_start_cannot_change(stopped: Path) -> None:
    before = [(stopped / name).read_text() for name in ("arguments.json", "config.yaml")]
    for word in FIXED:
        started = rf"^resume=true: {re.escape(word)}: runs/demo was started with {word.partition('=')[0]}=.*; remove it"
        refuse(["resume=true", word], started)
    for word, message in (
        ("training.max_steps=4", "the run has already made 26 updates; give 26 or more"),
        ("training.max_epochs=1", "the run is already in epoch 2; give 2 or more"),
    ):
        refuse(["resume=true", word], f"^{word}: {message}$")
    assert before == [(stopped / name).read_text() for name in ("arguments.json", "config.yaml")]


@pytest.mark.thorough
def test_settings_edited_in_the_stored_file_have_no_effect_and_are_named(
    stopped: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = stopped / "config.yaml"
    text = file.read_text()
    refuse(["resume=true", "training.max_steps=4"], "the run has already made 26 updates")
    assert "config.yaml" not in capsys.readouterr().err
    file.write_text(re.sub(r"n_best: 1\b", "n_best: 2", re.sub(r"clip_norm: .*", "clip_norm: 9.5", text)))
    refuse(["resume=true", "training.max_steps=4"], "the run has already made 26 updates")
    warning = "warning: runs/demo/config.yaml: search.n_best=2 has no effect; give it as an argument\n"
    assert capsys.readouterr().err.count("has no effect") == 1 and text != file.read_text()
    train(["resume=true"])
    printed = capsys.readouterr().err
    assert warning in printed and "training.clip_norm=9.5 has no effect" in printed
    assert read_yaml(file)["search"]["n_best"] == 1


def test_printed_commands_can_be_run(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [*SMALL, "batches.max_tokens=300", "name=it's mine", "trust=[nowhere]"]
    for step, kept in ((1, "a model that was not validated yet"), (7, "the best model so far")):
        stop_at(step, words)
        message = capsys.readouterr().err
        assert f"stopped; {kept} is in runs/it's mine\n" in message
        words = shlex.split(message.partition("continue with: nmt-train ")[2].splitlines()[0])
    train(words)
    printed = capsys.readouterr().out
    assert "since resuming" in printed and "total" not in printed
    translate_command = printed.partition("translate with: nmt-translate ")[2].partition(" <")[0]
    model, trust = shlex.split(translate_command)
    assert Path(model.partition("=")[2], "model.pt").is_file() and trust == "trust=[nowhere]"


@pytest.mark.parametrize(
    "word",
    [
        *("trust=[subprocess]", "++trust=[subprocess]", "--config-dir=conf", "logger.tracking_uri=http://elsewhere"),
        *("search.max_length=${oc.env:SECRET}", "+a='${oc.env:SECRET}'", "a=[${oc.env:SECRET}]"),
        *("a={b:${oc.env:SECRET}}", "a=${attention}", "${oc.env:SECRET}=a"),
        *(r"data.train.src=[$\{oc.env:SECRET\}]", r"a=[\$\{oc.env:SECRET\}]"),
        *("attention=../../secret", "+experiment=../secret", "+experiment@data=../secret", "attention=[../secret]"),
    ],
)
def test_stored_argument_that_runs_or_reads_anything_is_repeated_by_the_user(tmp_path: Path, word: str) -> None:
    (tmp_path / "arguments.json").write_text(json.dumps(["attention=memory", word]))
    expect_error(
        f"was started with '{re.escape(word)}'; repeat it if you trust", resumed_arguments, tmp_path, ["resume=true"]
    )
    repeated = word.lstrip("+").replace("=conf", "=mine")
    assert resumed_arguments(tmp_path, [repeated])[-1] == repeated
    assert trust_arguments(["seed=1", word]) == [word]  # so an interrupted run says how to resume it


@pytest.mark.parametrize("word", ["runs=../runs", "data.train.src=../a.en", "name=a..b", "search.max_length=8"])
def test_ordinary_arguments_are_resumed(tmp_path: Path, word: str) -> None:
    (tmp_path / "arguments.json").write_text(json.dumps([word]))
    assert resumed_arguments(tmp_path, ["resume=true"]) == [word, "resume=true"]


def test_run_on_a_prepared_folder_resumes_with_its_case(run: Path) -> None:
    stop_at(1, on_prepared("mine", "data.lowercase=true"))
    train(["resume=true"])
    assert read_yaml(run / "config.yaml")["tokenizer"]["vocab_size"] == 276
    translator = Translator.load(run)
    assert translator.lowercase and translator.encode("BAN Des") == translator.encode("ban des")
    words = [*on_prepared("other"), f"init_from={run}"]
    refuse(words, "its source tokenizer is not that of the prepared text")


def test_run_whose_text_was_prepared_again_is_not_resumed(run: Path) -> None:
    stop_at(1, on_prepared("mine"))
    shutil.move("mine", "first")
    on_prepared("mine", pairs=[pair[::-1] for pair in SENTENCES])
    refuse(["resume=true"], "^data: the text was prepared again since the run started; start a new run$")
    shutil.rmtree("mine")
    refuse(["resume=true"], "^data.folder=mine: has no settings.json; name a folder that nmt-prepare wrote")
    train(["resume=true", "data=prepared", "data.folder=first"])
    assert read_yaml(run / "config.yaml")["data"]["folder"] == "first"


def test_text_that_was_prepared_again_and_is_the_same_continues_a_run(run: Path) -> None:
    stop_at(1, on_prepared("mine"))
    shutil.rmtree("mine")
    on_prepared("mine")  # the same text with the same settings
    train(["resume=true"])


@pytest.mark.thorough
def test_run_stopped_early_trains_no_further_when_resumed(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["optimizer.lr=1e-30", "training.monitor=valid_loss", "training.patience=1", "training.max_epochs=9"]
    with monkeypatch.context() as patch:
        patch.setattr("nmt.training.run.report", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            train([*SMALL, *words])
    assert len(metrics(run, "valid_loss")) == 2
    train(["resume=true"])
    assert len(metrics(run, "valid_loss")) == 2 and capsys.readouterr().err.count("stopped early") == 2


@pytest.mark.thorough
def test_init_from_is_read_only_at_the_start(finished: Path) -> None:
    stop_at(1, [*SMALL, f"init_from={finished}", "name=next"])
    other = shutil.copytree(finished, finished.parent / "other")
    message = r"resume=true: init_from=\S*/other: runs/next was started with init_from="
    resume = ["resume=true", "name=next"]
    refuse([*resume, f"init_from={other}"], message)
    last = finished.parent / "next" / "checkpoints" / "last.ckpt"
    stored = torch.load(last)
    torch.save({**stored, "portable": {**stored["portable"], "longest_source": "many"}}, last)
    refuse(resume, r"last\.ckpt: cannot be resumed \(longest_source='many'\); start a new run")
    torch.save(stored, last)
    shutil.rmtree(finished)
    train(resume)
    lengths = [torch.load(other.parent / name / "model.pt")["longest_source"] for name in ("other", "next")]
    assert lengths[0] == lengths[1]
    cards = [(other.parent / name / "card.md").read_text("utf-8") for name in ("other", "next")]
    counts = "- further training of a model, whose text and updates are not counted here\n- pairs of sentences: "
    assert [counts in card for card in cards] == [False, True]


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("arguments.json", "[", r"resume=true: \S*arguments\.json: missing or damaged; start a new run"),
        ("arguments.json", '{"a": 1}', r"arguments\.json: missing or damaged"),
        ("arguments.json", None, r"arguments\.json: missing or damaged"),
        ("config.yaml", "{a: [b", r"runs/demo: its config\.yaml is damaged"),
        ("config.yaml", "name: ${oc.env:SECRET}", r"runs/demo: its config\.yaml is damaged"),
        ("config.yaml", None, r"runs/demo: has no config\.yaml"),
        ("config.yaml", "data: {seed: 1}", r"config\.yaml has no data\.\w+: damaged or of another ver"),
    ],
)
def test_damaged_folder_is_reported(run: Path, file: str, text: str | None, message: str) -> None:
    (run / "checkpoints").mkdir(parents=True)
    (run / "checkpoints" / "last.ckpt").touch()
    (run / "arguments.json").write_text(json.dumps(TINY))
    (run / file).unlink(missing_ok=True)
    if text is not None:
        (run / file).write_text(text)
    refuse(["resume=true"], message)


@pytest.mark.thorough
def test_stopped_run_on_shards_equals_the_uninterrupted_one(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten shards, which training reads two at a time. It stops in the second epoch."""
    monkeypatch.setattr(shards, "WINDOW_PAIRS", 6)
    words = on_prepared("mine", "shard_pairs=3")
    assert len([*Path("mine").glob("train-*.arrow")]) == 10
    check_resumed([*words, "batches.max_tokens=60", "batches.bpe_dropout=0.3"], [13])


@pytest.mark.thorough
@pytest.mark.parametrize("prepared", [False, True])
def test_resumed_run_refuses_damaged_text(run: Path, prepared: bool) -> None:
    stop_at(1, on_prepared("mine") if prepared else TINY)
    file = Path("mine/train.arrow") if prepared else run / "data" / "train.arrow"
    content = file.read_bytes()
    changed = content.replace(b"Ban", b"Man", 1).replace(b"ban", b"man", 1)
    assert changed != content
    file.write_bytes(changed)
    refuse(["resume=true"], r"train\.arrow: cannot be read as a corpus \(wrong checksum\); prepare")
    file.write_bytes(content)
    train(["resume=true"])
    assert (run / "summary.json").is_file()
