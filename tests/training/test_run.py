"""nmt-train from its arguments to the files of its folder, on a copy task that takes seconds."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from builders import call_before, expect_error, require_bfloat16_lstm, write_parts
from tiny import (
    MODEL,
    ONE_EPOCH,
    SMALL,
    TINY,
    WITHOUT_ATTENTION,
    on_prepared,
    refuse,
    stored_weights,
    summary,
)

from nmt import Translator
from nmt.commands.train import train
from nmt.config.init_from import read_yaml
from nmt.config.runs import new_folder
from nmt.text.batches import Batch
from nmt.training.task import TranslationTask


def test_sources_too_long_for_the_attention_stop_a_run_before_training(run: Path, tmp_path: Path) -> None:
    files = write_parts(tmp_path, {"train": [("a b c", "a")] * 300, "valid": [("a", "a"), ("a b c d e f g h", "a")]})
    words = [word for word in MODEL if not word.startswith("attention")]
    words += ["data=text", *files, "tokenizer.vocab_size=265", "attention=low_rank"]
    refuse(words, "data.valid: pair 2: source of .* LowRankAttention holds at most")


def test_run_writes_all_files(run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmt.training.report.PICTURES", 6)  # tests/saved_time.py lowers it
    train([*TINY, "name=demo"])
    printed = capsys.readouterr()
    content = summary(run)
    assert set(content["test"]) == {"bleu", "chrf", "aer"} <= set(content["signatures"])
    assert 0 <= content["test"]["aer"] <= 1
    assert content["tokens_per_s"] > 0 and content["seconds"] > 0
    assert content["attention"] == "LocatedMemoryAttention"
    for name in ("source", "references", "translations", "translations.links", "references.links", "gold.links"):
        assert len((run / f"test.{name}.txt").read_text().split("\n")) == 8 + 1, name
        assert f"runs/demo/test.{name}.txt" in printed.out
    assert len(list((run / "heatmaps").glob("*.png"))) == 6
    for name in ("config.yaml", "model.pt", "curve.png", "alignments.html", "metrics.csv", "checkpoints/last.ckpt"):
        assert (run / name).stat().st_size > 0, name
    assert list((run / "tensorboard").glob("events.*"))
    assert not (run / "onnx").exists()  # export=false
    assert "LocatedMemoryAttention(slots=3)" in printed.out and "version:" in printed.out
    assert "translating the test set …" in printed.err


def test_run_without_test_set_translates_nothing(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    named = run.with_name("<b> a_b")
    train([*on_prepared("mine"), "training.max_epochs=1", f"name={named.name}"])
    assert summary(named)["test"] is None
    card = (named / "card.md").read_text("utf-8")
    assert "It had no test set" in card and "\n# \\<b\\> a\\_b\n" in card
    assert "    nmt-translate 'model=<b> a_b' <" in card
    assert "test set" not in capsys.readouterr().err


def test_model_without_attention_has_no_alignments(run: Path) -> None:
    train(WITHOUT_ATTENTION)
    assert summary(run)["test"]["aer"] is None
    assert (run / "test.translations.txt").is_file()
    for name in ("test.references.links.txt", "test.translations.links.txt", "alignments.html", "heatmaps"):
        assert not (run / name).exists(), name


@pytest.mark.thorough
@pytest.mark.parametrize(
    "settings",
    [
        "precision=bf16 batches.accumulate=3 schedule=constant training.keep_best=2 training.monitor=valid_chrf",
        "tokenizer.joint=false embeddings.shared=false decoder.output_layer=direct search=greedy",
        "encoder=bigru decoder=gru decoder.layers=2 precision=bf16",
        "decoder=ssru decoder.layers=2 precision=bf16",
        "encoder=lstm encoder.layers=2 decoder.layers=3 schedule=plateau tokenizer=unigram",
        "decoder.tied=true decoder.input_feeding=true optimizer=adamw optimizer.betas=[0.9,0] schedule=linear",
    ],
)
def test_settings_can_be_combined(run: Path, settings: str) -> None:
    if "precision=bf16" in settings:
        require_bfloat16_lstm()
    train([*SMALL, *settings.split()])
    assert len(Translator.load(run).translate(["ban des", "gin"])) == 2


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


def test_cpu_without_bfloat16_is_named(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmt.training.fit.has_bfloat16_lstm", lambda: False)
    refuse([*TINY, "precision=bf16"], "precision=bf16: this CPU has no LSTM in bfloat16; remove precision=bf16")


def test_runs_started_at_the_same_time_get_separate_folders(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        folders = set(pool.map(lambda _: new_folder(tmp_path / "runs", "demo"), range(8)))
    assert len(folders) == 8 and tmp_path / "runs" / "demo" in folders
    (tmp_path / "gone").symlink_to(tmp_path / "unmounted")
    expect_error(str(tmp_path / "gone"), new_folder, tmp_path / "gone", "demo")


def test_prepared_folder_without_validation_part_is_rejected(run: Path) -> None:
    words = on_prepared("mine", parts=["train"])
    refuse(words, "data.folder=mine: has no valid.arrow; .* add data.valid.src=FILE")
    assert not run.exists()


def test_shared_embeddings_are_rejected_with_two_existing_vocabularies(run: Path) -> None:
    words = on_prepared("mine", "tokenizer.joint=false")
    refuse(words, "embeddings.shared=true: .* but data.folder=mine has two; set")
    assert not run.exists()
    train([*words, "training.max_epochs=1", "embeddings.shared=false"])
    second = [*(word for word in TINY if not word.startswith("tokenizer")), f"init_from={run}", "name=next"]
    refuse([*second, "embeddings.shared=true"], f"embeddings.shared=true: .* but init_from={run} has two; set")
    assert not (run.parent / "next").exists()


@pytest.mark.thorough
@pytest.mark.parametrize("key", ["embeddings.shared", "decoder.tied"])
def test_separate_tables_of_init_from_cannot_become_one(run: Path, key: str) -> None:
    train([*ONE_EPOCH, f"{key}=false"])
    message = f"init_from={run}: .*{key}=true.*remove the embeddings and decoder"
    refuse([*TINY, f"{key}=true", f"init_from={run}"], message)


@pytest.mark.thorough
def test_init_from_starts_with_the_weights_of_that_run(finished: Path) -> None:
    words = [*SMALL, f"init_from={finished}", "name=next"]
    train([*words, "optimizer.lr=1e-9"])
    before, after = (stored_weights(finished.parent / name / "model.pt") for name in ("demo", "next"))
    for name, weight in before.items():
        torch.testing.assert_close(after[name], weight, atol=1e-6, rtol=0)
    own = "its weights do not fit {}; remove these settings to inherit its own$"
    refuse([*words, "decoder.hidden_size=6", "decoder.dropout=0.5"], own.format("decoder.hidden_size=6"))
    refuse([*words, "encoder=gru"], own.format(r"encoder=GRUEncoder\(.*\)"))
    refuse([*words, "tokenizer.vocab_size=290"], "vocab_size=290: differs from tokenizer.vocab_size=280 .* init_from=")


@pytest.mark.thorough
def test_init_from_keeps_settings_that_are_not_overridden(run: Path) -> None:
    """These are model, tokenizers and case. Text and training settings are those of the new run."""
    first = [*(word for word in TINY if "slots" not in word), "data.lowercase=true", "decoder.dropout=0.25"]
    train([*first, "tokenizer=unigram", "encoder=lstm", "attention=luong", "training.max_epochs=1"])
    second = [word for word in TINY if not word.startswith(("tokenizer", "emb", "enc", "att", "dec"))]
    train([*second, "training.max_epochs=1", f"init_from={run}", "name=next", "decoder.dropout=0.5"])
    before, after = (read_yaml(run.parent / name / "config.yaml") for name in ("demo", "next"))
    assert [name for name in before if before[name] != after[name]] == ["decoder", "name", "init_from"]
    assert after["decoder"] == {**before["decoder"], "dropout": 0.5}
    assert Translator.load(run.parent / "next").lowercase
    stored = run / "config.yaml"
    for damaged in (stored.read_text().replace("dropout: 0.25", "dropout: ${oc.env:HOME}"), "a: ["):
        stored.write_text(damaged)
        refuse([*second, f"init_from={run}"], r"init_from=.*demo: its config\.yaml is damaged; name a folder")
    refuse([*second, "init_from=nowhere"], r"init_from=nowhere: no such folder; name a folder")


@pytest.mark.thorough
def test_identical_runs_write_identical_models(run: Path) -> None:
    """In new processes, whose numbers and hash seeds differ."""
    models = []
    for seed in ("1", "2"):
        folder = run.parents[1] / seed
        folder.mkdir()
        command = [sys.executable, "-c", f"from nmt.commands.train import train; train({SMALL})"]
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(__file__).parents[2])}
        subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)
        models.append((folder / "runs" / "demo" / "model.pt").read_bytes())
    assert models[0] == models[1]
