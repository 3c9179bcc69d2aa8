"""Whole runs: their files, report, settings that are combined, models to start from, and refusals."""

from __future__ import annotations

import re
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from builders import BAHDANAU, call_before, random_trained, require_bfloat16_lstm, tiny_config, write_parts
from safetensors.torch import load_file
from tiny import (
    MODEL,
    ONE_EPOCH,
    SENTENCES,
    SMALL,
    TINY,
    WITHOUT_ATTENTION,
    metrics,
    on_prepared,
    refuse,
    stored_weights,
    summary,
)

import nmt
from nmt.alignment.aer import alignment_error_rate
from nmt.commands.evaluate import evaluate
from nmt.commands.train import train
from nmt.config.compose import train_config
from nmt.config.overrides import read_yaml
from nmt.data.links import Pair, parse_links
from nmt.errors import UserError
from nmt.inference.model_folder import load_folder
from nmt.inference.scores import EvaluationSettings
from nmt.inference.translator import Translator
from nmt.search.options import SearchOptions
from nmt.text.batches import Batch
from nmt.text.corpus import Corpus, write_corpus
from nmt.text.prepare import open_prepared
from nmt.text.specials import EOS
from nmt.text.tokenizer import Tokenizer
from nmt.training.logs import MetricsFile, build_logger, finish
from nmt.training.metrics import COLUMNS, read_metrics
from nmt.training.provenance import commit
from nmt.training.report import test_report as report_of_test_set
from nmt.training.run import export_run
from nmt.training.task import TranslationTask
from nmt.training.weights import compare_lengths, new_model

thorough = pytest.mark.thorough


def lines(file: Path) -> list[str]:
    return file.read_text("utf-8").splitlines()


# Files of a run.


def test_run_writes_all_files(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = summary(finished)
    assert content["tokens_per_s"] > 0 and content["seconds"] > 0 and content["seed"] == 1
    assert content["toolkit"]["version"] == nmt.__version__ and content["versions"]["torch"]
    for name in ("config.yaml", "model.pt", "curve.png", "alignments.html", "metrics.csv", "checkpoints/last.ckpt"):
        assert (finished / name).stat().st_size > 0, name
    assert {file.read_bytes()[:4] for file in (finished / "heatmaps").iterdir()} == {b"\x89PNG"}
    corpus = Corpus(finished / "data" / "test.arrow")
    assert lines(finished / "test.source.txt") == corpus.sources()
    assert lines(finished / "test.references.txt") == corpus.targets()
    golds = parse_links(lines(finished / "test.gold.links.txt"), "gold")
    assert golds == corpus.links()
    translator = Translator.load(finished)
    assert translator.loaded_model.properties.single_sentences
    options = SearchOptions(max_length=8)
    assert translator.texts(corpus.sources(), options) == lines(finished / "test.translations.txt")
    links = translator.align(zip(corpus.sources(), corpus.targets(), strict=True))
    assert content["test"]["aer"] == alignment_error_rate(links, golds)
    files = (f"{finished}/test.{name}.txt" for name in ("source", "references"))
    evaluate([f"model={finished}", *map("=".join, zip(("src", "tgt"), files, strict=True)), "search.max_length=8"])
    printed = dict(line.split()[:2] for line in capsys.readouterr().out.splitlines())
    assert printed["BLEU"] == f"{content['test']['bleu']:.2f}"


def test_run_without_test_set_and_attention_draws_nothing(run: Path) -> None:
    named = run.with_name("<b> a_b")
    words = [word for word in on_prepared("mine") if "slots" not in word]
    train([*words, "attention=none", "training.max_epochs=1", f"name={named.name}"])
    assert summary(named)["test"] is None
    assert not [*named.glob("test.*"), *named.glob("alignments*"), *named.glob("heatmaps")]


def test_metrics_file_keeps_what_a_resumed_run_does_not_repeat(tmp_path: Path) -> None:
    log = MetricsFile(tmp_path)
    for step in (3, 9, 12):
        log.log_metrics({"train_loss": step / 2, "lr-Adam": 0.5, "other": 1.0}, step)
    with log.path.open("a") as file:
        file.write("15,0,7.")  # the process was killed
    assert read_metrics(log.path)["train_loss"] == [(3, 1.5), (9, 4.5), (12, 6.0)]
    log.forget(12)
    log.log_metrics({"valid_loss": 2.0}, 12)
    assert lines(log.path) == [",".join(COLUMNS), "3,,1.5,,,,,0.5", "9,,4.5,,,,,0.5", "12,,,2.0,,,,"]


def test_any_logger_of_lightning_gets_settings_metrics_and_scores(run: Path) -> None:
    Path("conf/logger").mkdir(parents=True)
    Path("conf/logger/own.yaml").write_text("_target_: pytorch_lightning.loggers.CSVLogger\nsave_dir: logs\n")
    train([*SMALL, "training.max_epochs=1", "logger=own", "--config-dir=conf"])
    stored = next(Path("logs").rglob("metrics.csv")).read_text()
    assert "valid_loss" in stored and "test_bleu" in stored
    assert "StretchMemory" in next(Path("logs").rglob("hparams.yaml")).read_text()


def test_tensorboard_gets_the_curves_of_a_run(run: Path) -> None:
    config = train_config(["logger=tensorboard"])
    logger = build_logger(config.logger, run, trust=())
    assert logger is not None
    logger.log_metrics({"valid_loss": 2.0}, 12)
    finish(logger, {"test": {"bleu": 30.0}}, 12)
    assert list((run / "tensorboard").glob("events.*"))


def test_commit_is_that_of_the_checkout_itself(tmp_path: Path) -> None:
    def git(*words: str) -> str:
        command = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b", *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    git("init", "-q")
    (tmp_path / "file").write_text("a")
    git("add", "file")
    git("commit", "-qm", "x")
    assert commit(tmp_path) == {"commit": git("rev-parse", "HEAD"), "changed": False}
    (tmp_path / "file").write_text("b")
    assert commit(tmp_path)["changed"] is True
    (tmp_path / "site-packages").mkdir()  # an environment inside someone else's checkout
    assert commit(tmp_path / "site-packages") == {"commit": None, "changed": None}


# The report on a test set.


def report_on(pairs: list[Pair], folder: Path) -> dict[str, Any]:
    """Write the report of an untrained model on ``pairs`` into ``folder``, and return its numbers."""
    tokenizer = Tokenizer.train(["a dog sees a cat", "ein Hund sieht eine Katze"] * 9, vocab_size=280)
    write_corpus(folder / "test.arrow", pairs, tokenizer, tokenizer)
    translator = Translator(random_trained(tiny_config(BAHDANAU), tokenizer, longest_source=20, seed=1))
    search = SearchOptions(beam_size=1, max_length=4)
    return report_of_test_set(translator, Corpus(folder / "test.arrow"), folder, search, EvaluationSettings())


@pytest.mark.filterwarnings("ignore:source text")
def test_long_sentences_are_aligned_but_not_drawn(tmp_path: Path) -> None:
    long = Pair("a cat " * 60, "eine Katze " * 60, ())
    results = report_on([long, Pair("a\n\ndog", "ein\rHund", ())], tmp_path)
    assert results["test"]["aer"] is None  # no gold link
    page = (tmp_path / "alignments.html").read_text("utf-8")
    assert page.count("<section") == 1 and page.count("<td") == (2 + 1) * 2  # with a row of equal weights
    assert [file.name for file in (tmp_path / "heatmaps").iterdir()] == ["test-2.png"]
    assert [len(line.split()) for line in lines(tmp_path / "test.references.links.txt")] == [120, 2]
    assert (tmp_path / "test.source.txt").read_text() == "a cat " * 60 + "\na dog\n"  # one line for each pair


@pytest.mark.parametrize("function", ["draw_heatmap", "alignment_page"])
def test_any_error_of_a_picture_is_a_warning(
    function: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(f"nmt.training.report.{function}", Mock(side_effect=ZeroDivisionError("no font\nat all")))
    report_on([Pair("a dog", "ein Hund", ())], tmp_path)
    assert "no font at all" in capsys.readouterr().err


# Settings.


@thorough
@pytest.mark.parametrize(
    "settings",
    [
        "batches.accumulate=3 schedule=constant training.monitor=valid_chrf "
        "decoder.tied=true decoder.input_feeding=true optimizer=adamw optimizer.betas=[0.9,0] batches.bpe_dropout=0.1",
        "tokenizer=unigram tokenizer.vocab_size=[280,276] embeddings.shared=false decoder.output_layer=direct "
        "search=greedy encoder=lstm encoder.layers=2 decoder=ssru decoder.layers=3 schedule=plateau",
    ],
)
def test_settings_can_be_combined(run: Path, settings: str) -> None:
    train([*SMALL, *settings.split()])
    assert len(Translator.load(run).translate(["ban des", "gin"])) == 2
    rows = [row for row in metrics(run, "valid_loss")]
    assert len(rows) == 2


@thorough
def test_only_products_are_bfloat16(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights, gradients and the optimizer's state stay float32."""
    require_bfloat16_lstm()
    dtypes: dict[str, set[torch.dtype]] = {"features": set(), "weights": set(), "gradients": set()}

    def record_features(task: TranslationTask, batch: Batch, _: int) -> None:
        dtypes["features"].add(task.model.features(batch.source, batch.source_mask, batch.target_in).dtype)

    def record_weights(task: TranslationTask, _: torch.optim.Optimizer) -> None:
        dtypes["weights"] |= {weight.dtype for weight in task.parameters()}
        dtypes["gradients"] |= {weight.grad.dtype for weight in task.parameters() if weight.grad is not None}

    call_before(monkeypatch, TranslationTask, "training_step", record_features)
    monkeypatch.setattr(TranslationTask, "on_before_optimizer_step", record_weights)
    train([*ONE_EPOCH, "precision=bf16", "training.clip_norm=0.5"])
    assert dtypes == {"features": {torch.bfloat16}, "weights": {torch.float32}, "gradients": {torch.float32}}
    state = torch.load(run / "checkpoints" / "last.ckpt", weights_only=True)["optimizer_states"][0]["state"]
    assert {weight["exp_avg"].dtype for weight in state.values()} == {torch.float32}


# Text of a program, and export.

PARTS = {"train": SENTENCES, "valid": SENTENCES, "test": SENTENCES[:2]}
PROGRAM = [*(word for word in MODEL if "slots" not in word), "attention=none", "tokenizer.vocab_size=276"]


@thorough
def test_pairs_of_a_program_train_as_those_of_files(run: Path) -> None:
    rows = {part: ({"de": source, "en": target} for source, target in pairs) for part, pairs in PARTS.items()}
    nmt.train(*PROGRAM, **rows, columns=("de", "en"))
    train([*PROGRAM, "data=text", *write_parts(Path(), PARTS), "name=files"])
    for file in ("data/train.arrow", "data/source.model", "test.translations.txt"):
        assert (run / file).read_bytes() == (run.with_name("files") / file).read_bytes()


@thorough
def test_run_in_a_thread_is_exported(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmt.training.run.export_run", export := Mock())
    thread = threading.Thread(target=lambda: nmt.train(*WITHOUT_ATTENTION, "export=true"))  # no signals there
    thread.start()
    thread.join()
    assert export.call_args.args[1] == run.relative_to(Path.cwd())


def test_failed_export_ends_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("nmt.inference.onnx.export.export", Mock(side_effect=RuntimeError("no such\noperator")))
    export_run(Mock(), tmp_path)
    assert "not exported: no such operator" in capsys.readouterr().err


@pytest.mark.parametrize(("attention", "slots"), [("memory", 3), ("stretch_memory", 6), ("luong", 0), ("none", 0)])
def test_sources_longer_than_the_memory_are_counted(
    attention: str, slots: int, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [*(word for word in on_prepared("text") if "slots" not in word), f"attention={attention}"]
    prepared = open_prepared(Path("text"))
    model = new_model(train_config([*words, *(["attention.slots=3"] if slots else [])]), prepared).model
    capsys.readouterr()
    compare_lengths(model, prepared)
    longer = sum(len([*prepared.source.encode(source), EOS]) > slots for source, _ in SENTENCES)
    expected = f"train: {longer} of 30 sources have more pieces than the memory has slots, {slots}\n"
    assert longer > 0 and capsys.readouterr().err == (expected if slots else "")


# Models to start from.


@thorough
def test_init_from_starts_with_the_weights_and_settings_of_that_run(run: Path) -> None:
    first = [*(word for word in TINY if "slots" not in word), "data.lowercase=true", "decoder.dropout=0.25"]
    train([*first, "tokenizer=unigram", "encoder=lstm", "attention=luong", "training.max_epochs=1"])
    second = [word for word in TINY if not word.startswith(("tokenizer", "emb", "enc", "att", "dec"))]
    second += ["training.max_epochs=1", f"init_from={run}", "name=next"]
    train([*second, "decoder.dropout=0.5", "optimizer.lr=1e-9"])
    before, after = (stored_weights(run.parent / name / "model.pt") for name in ("demo", "next"))
    for name, weight in before.items():
        torch.testing.assert_close(after[name], weight, atol=1e-6, rtol=0)
    configs = [read_yaml(run.parent / name / "config.yaml") for name in ("demo", "next")]
    changed = [name for name in configs[0] if configs[0][name] != configs[1][name]]
    assert changed == ["decoder", "optimizer", "name", "init_from"]
    assert Translator.load(run.parent / "next").lowercase
    for words in (["decoder.hidden_size=6"], ["encoder=gru"], ["decoder.tied=true"]):
        refuse([*second, *words], f"^init_from={run}: ")
    refuse([*second, "tokenizer.vocab_size=290"], "^tokenizer.vocab_size=290: ")


@thorough
def test_adapter_is_a_model_that_names_its_base(finished: Path) -> None:
    words = ["adapt=lora", "adapt.rank=2", "name=b", "optimizer.lr=0.05", "schedule=constant", "export=false"]
    words += [f"init_from={finished}", "search.max_length=8", "device=cpu", "threads=1", "training.max_epochs=1"]
    before = (finished / "model.pt").read_bytes()
    train(words)
    adapted = finished.parent / "b"
    assert not (adapted / "model.pt").exists() and (finished / "model.pt").read_bytes() == before
    tensors = load_file(adapted / "adapter.safetensors")
    assert any(tensors[name].any() for name in tensors if name.endswith(".B"))
    for file in (adapted / "checkpoints").iterdir():
        stored = torch.load(file, weights_only=True)
        assert {name.rpartition(".")[2] for name in stored["state_dict"]} == {"A", "B"}
    kept = lines(adapted / "test.translations.txt")  # of the report, which merged in memory
    assert Translator.load(adapted).texts(lines(adapted / "test.source.txt"), SearchOptions(max_length=8)) == kept
    start = load_folder(adapted).model.state_dict()
    train([*words, f"init_from={adapted}", "name=c", "optimizer.lr=1e-12"])
    train([*(word for word in words if "adapt" not in word), f"init_from={adapted}", "name=d", "optimizer.lr=1e-12"])
    for name in ("c", "d"):
        model = load_folder(finished.parent / name).model.state_dict()
        assert all(torch.allclose(model[key], start[key], atol=1e-6) for key in start)
    assert (finished.parent / "d" / "model.pt").is_file()
    texts = "data.lowercase=true", "data.remove_invisible=all"
    for wrong in ("adapt.rank=9", "adapt.to=[]", "encoder.hidden_size=6", "attention.slots=2", *texts):
        refuse([*words, wrong, "name=e"], f"^{re.escape(wrong.partition('=')[0])}")
    given = f"tokenizer.model={finished}/data/source.model"
    train([*words, *on_prepared("same", given)[-2:], "name=prepared"])
    refuse([*words, *on_prepared("other", given, texts[0])[-2:], "name=e"], "^data.lowercase=")


# Refusals.


@pytest.mark.parametrize(
    ("words", "key"),
    [
        ("device=tpu", "device="),
        ("batches.accumulate=100000000000000000000", "batches.accumulate="),
        ("schedule._target_=torch.optim.lr_scheduler.StepLR +schedule.step_size=0.5 +schedule.x=1", "schedule"),
        ("optimizer.betas=[0.9,2]", "optimizer"),
        ("data=generated tokenizer=unigram batches.bpe_dropout=0.1", "batches.bpe_dropout="),
        ("data=generated guide=links batches.bpe_dropout=0.1", "batches.bpe_dropout="),
        ("guide=links attention=none", "guide="),
        ("training.max_epochs=null training.patience=null", "training.max_epochs=null: "),
        ("training.max_epochs=null schedule=linear", "training.max_epochs=null: "),
        ("devices=2", "devices"),
        ("logger=wandb logger._target_=os.system", "logger"),
        ("logger=wandb logger._target_=pytorch_lightning.Trainer", "logger"),
        ("logger=wandb", "logger"),  # its package is not installed
        ("adapt=lora", "adapt: "),
        ("optimizer.lr=1e38", "loss is (inf|nan) at update 1: "),
    ],
)
def test_wrong_setting_is_named_and_leaves_no_model(run: Path, words: str, key: str) -> None:
    base = [word for word in TINY if not ("attention=none" in words and "slots" in word)]
    refuse([*base, *words.split()], f"^{key}")
    assert not (run / "model.pt").exists()


@thorough
@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({"train": [*SENTENCES, ("a", 3)], "valid": SENTENCES}, "data: "),
        ({"train": SENTENCES}, "valid=: "),
        ({"train": [], "valid": SENTENCES}, "data"),
        ({"train": SENTENCES, "valid": SENTENCES, "columns": ("de",)}, "columns="),
        ({"columns": ("de", "en")}, "columns=: "),
    ],
)
def test_wrong_pairs_of_a_program_are_named(run: Path, given: dict[str, Any], key: str) -> None:
    with pytest.raises(UserError, match=f"^{key}|the training text"):
        nmt.train(*PROGRAM, **given)
    assert not run.exists()


@thorough
def test_text_that_does_not_fit_is_refused(run: Path) -> None:
    refuse(on_prepared("mine", parts=["train"]), "^data.folder=mine: ")
    shutil.rmtree("mine")
    refuse(on_prepared("mine", "tokenizer.vocab_size=[276,276]"), "^embeddings.shared=true: ")
    assert not run.exists()


@thorough
def test_out_of_memory_names_the_batches(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    call_before(monkeypatch, TranslationTask, "training_step", Mock(side_effect=MemoryError))
    refuse(TINY, "^batches.max_tokens=1536: ")


@thorough
def test_diverged_run_keeps_its_last_finite_model(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def ruin(task: TranslationTask, batch: Any, index: int) -> None:
        if task.global_step == 3:
            with torch.no_grad():
                next(task.model.decoder.parameters()).fill_(float("nan"))

    call_before(monkeypatch, TranslationTask, "training_step", ruin)
    refuse(WITHOUT_ATTENTION, "^loss is nan at update 3: .*the model of epoch 1")
    assert all(weight.isfinite().all() for weight in stored_weights(run / "model.pt").values())
