"""``nmt-train -m``: each job is the single run with its settings, and a second call trains only what is missing."""

from __future__ import annotations

import csv
import json
import shutil
from contextlib import chdir
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from builders import write_parts
from tiny import MODEL, SENTENCES, WITHOUT_ATTENTION, on_prepared, record_batches, refuse, stop_at, summary

from nmt.commands.sweep import _valid_loss, _write_table
from nmt.commands.train import train
from nmt.config.init_from import read_yaml
from nmt.errors import UserError
from nmt.files.atomic import lock_folder

pytestmark = pytest.mark.thorough

ONCE = ["training.max_epochs=1", "training.decode_sentences=0", "training.monitor=valid_loss"]
WORDS = [*WITHOUT_ATTENTION, *ONCE]
SWEPT = [*WORDS, "attention=luong,none", "seed=1,2", "name=kinds"]
JOBS = [f"attention={kind},seed={seed}" for kind in ("luong", "none") for seed in (1, 2)]


@pytest.fixture(scope="module")
def swept_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which a sweep of four jobs has finished. Only for reading, or for calls that train nothing."""
    with chdir(folder := tmp_path_factory.mktemp("swept")):
        train(["-m", *SWEPT])
    return folder


@pytest.fixture
def swept(swept_once: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to that folder and return the folder of the sweep."""
    monkeypatch.chdir(swept_once)
    return swept_once / "runs" / "kinds"


@pytest.fixture
def no_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail if a finished job is trained again."""
    monkeypatch.setattr("nmt.training.run.fit", Mock(side_effect=AssertionError))


def sweep_table(sweep: Path) -> list[dict[str, str]]:
    with (sweep / "sweep.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_each_job_is_the_single_run_with_its_settings(swept: Path) -> None:
    assert sorted(folder.name for folder in swept.iterdir() if folder.is_dir()) == JOBS
    for job in JOBS:
        config = read_yaml(swept / job / "config.yaml")
        kind = {"LuongAttention": "luong", "NoAttention": "none"}[config["attention"]["_target_"].rpartition(".")[2]]
        assert f"attention={kind},seed={config['seed']}" == job
    train([*WORDS, "attention=luong", "seed=2", "name=single"])
    job, expected = summary(swept / "attention=luong,seed=2"), summary(Path("runs/single"))
    assert (job["test"], job["valid_best"]) == (expected["test"], expected["valid_best"])


def test_table_has_mean_and_sample_deviation_over_the_seeds(swept: Path) -> None:
    rows = sweep_table(swept)
    assert [row["attention"] for row in rows] == ["luong", "none"]
    for row in rows:
        summaries = [summary(swept / f"attention={row['attention']},seed={seed}") for seed in (1, 2)]
        losses = [item["valid_best"] for item in summaries]
        assert float(row["valid_loss_mean"]) == pytest.approx(np.mean(losses))
        assert float(row["valid_loss_sd"]) == pytest.approx(np.std(losses, ddof=1))
        assert float(row["chrf_mean"]) == pytest.approx(np.mean([item["test"]["chrf"] for item in summaries]))
        assert float(row["tokens_per_s_mean"]) == pytest.approx(np.mean([item["tokens_per_s"] for item in summaries]))
        assert (row["n"], row["unfinished"], row["aer_mean"] == "") == ("2", "0", row["attention"] == "none")
    jobs = json.loads((swept / "sweep.json").read_text())
    assert [job["settings"] for job in jobs] == [{"attention": job[10:15].strip(","), "seed": job[-1]} for job in JOBS]
    assert [job["objective"] for job in jobs] == [summary(swept / job)["valid_best"] for job in JOBS]


def test_second_call_trains_nothing_and_prints_the_same_table(swept: Path, no_training: None, capsys: Any) -> None:
    before = (swept / "sweep.csv").read_text()
    config = swept / "attention=none,seed=1" / "config.yaml"  # as an earlier version wrote it
    config.write_text(config.read_text().replace("attention:\n", "attention:\n  directions: forward\n"))
    file = swept / "attention=none,seed=1" / "summary.json"
    file.write_text(json.dumps({**summary(file.parent), "toolkit": {"version": "0.0.1"}}))
    train(["-m", *SWEPT])
    output = capsys.readouterr()
    assert output.err.count("has finished already; skipped") == 3
    assert output.err.count("attention=none,seed=1: has finished already, trained by version 0.0.1 (this is") == 1
    assert (swept / "sweep.csv").read_text() == before
    assert "runs/kinds: mean ± standard deviation over n jobs" in output.out
    for name in ("luong", "none", "BLEU", "valid loss"):
        assert name in output.out


def test_sweep_that_cannot_continue_starts_no_job(swept: Path, no_training: None) -> None:
    message = "runs/kinds/attention=luong,seed=1: was trained with search.beam_size=5, not search.beam_size=2; choose"
    refuse(["-m", *SWEPT, "attention=luong", "search.beam_size=2"], message)
    with lock_folder(swept):
        refuse(["-m", *SWEPT], "runs/kinds: process [0-9]+ is training into it; wait until")


def test_interrupted_sweep_continues(run: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    words = [*WORDS, "batches.max_tokens=300"]
    stop_at(2, ["-m", *words, "seed=1,2"])
    assert "stopped; 0 of 2 jobs have finished; repeat the command" in capsys.readouterr().err
    sweep = run.parent / "sweep"
    assert not (sweep / "seed=2").exists()
    steps = record_batches(monkeypatch)
    train(["-m", *words, "seed=1,2"])
    batches = len(steps)
    train([*words, "seed=1", "name=whole"])
    assert batches < 2 * (len(steps) - batches)
    assert summary(sweep / "seed=1")["test"] == summary(run.parent / "whole")["test"]
    assert (sweep / "seed=2" / "summary.json").is_file()


def test_failed_job_is_named_and_the_others_go_on(run: Path) -> None:
    sizes = "tokenizer.vocab_size=20000"
    with pytest.raises(UserError) as caught:
        train(["-m", *WORDS, "name=sizes", f"{sizes},280"])
    assert "1 of 2 jobs failed" in str(caught.value)
    assert f"sizes/{sizes}: {sizes}: this text yields at" in str(caught.value)
    assert (run.parent / "sizes" / "tokenizer.vocab_size=280" / "summary.json").is_file()
    rows = {row["tokenizer.vocab_size"]: (row["n"], row["unfinished"]) for row in sweep_table(run.parent / "sizes")}
    assert rows == {"280": ("1", "0"), "20000": ("0", "1")}


def test_joblib_launcher_has_the_results_of_the_sequential_one(swept: Path, tmp_path: Path) -> None:
    pytest.importorskip("hydra_plugins.hydra_joblib_launcher", reason="hydra-joblib-launcher is not installed")
    words = ["-m", "hydra/launcher=joblib", "hydra.launcher.n_jobs=2", *SWEPT, f"runs={tmp_path}", "seed=1"]
    train([word for word in words if word != "seed=1,2"])
    for kind in ("luong", "none"):
        parallel, sequential = tmp_path / "kinds" / f"attention={kind}", swept / f"attention={kind},seed=1"
        assert summary(parallel)["test"] == summary(sequential)["test"]
        assert "epoch 1" in Path(f"{parallel}.log").read_text()


def test_jobs_without_a_result_are_counted_and_left_out_of_the_mean(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = [
        {"settings": {"seed": "1", "a": "x"}, "status": "finished", "bleu": 1.0},
        {"settings": {"seed": "2", "a": "x"}, "status": "failed"},
        {"settings": {"seed": "3", "a": "x"}, "status": "finished", "bleu": 4.0},
        {"settings": {"seed": "1", "a": "y"}, "status": "finished", "bleu": None},
    ]
    _write_table(records, tmp_path)
    columns = ("a", "n", "unfinished", "bleu_mean")
    x, y = ([row[column] for column in columns] for row in sweep_table(tmp_path))
    assert x == ["x", "2", "1", "2.5"]
    assert y == ["y", "1", "0", ""]
    assert "seed=2" in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore")  # Optuna 2 raises deprecation warnings of SQLAlchemy 2
def test_optuna_minimises_the_loss_and_survives_failed_trials(run: Path) -> None:
    pytest.importorskip("hydra_plugins.hydra_optuna_sweeper", reason="hydra-optuna-sweeper is not installed")
    words = [word for word in WORDS if "vocab_size" not in word] + ["training.patience=null"]
    words += ["hydra/sweeper=optuna", "hydra/sweeper/sampler=grid", "hydra.sweeper.n_trials=3"]
    refuse(["-m", *words, "tokenizer.vocab_size=20000,280,300"], "1 of 3 jobs failed")
    sweep = run.parent / "sweep"
    losses = {size: summary(sweep / f"tokenizer.vocab_size={size}")["valid_best"] for size in (280, 300)}
    best = read_yaml(sweep / "optimization_results.yaml")
    assert best["best_value"] == min(losses.values()) == losses[int(best["best_params"]["tokenizer.vocab_size"])]


def test_valid_loss_is_that_of_the_kept_epoch(tmp_path: Path) -> None:
    rows = ["step,epoch,train_loss,valid_loss,valid_accuracy,valid_bleu,valid_chrf,lr"]
    rows += ["9,0,,4.5,0.1,2.0,,", "19,1,,3.5,0.2,9.0,,", "19,1,3.1,,,,,0.1", "29,2,,3.75,0.2,7.0,,"]
    (tmp_path / "metrics.csv").write_text("".join(f"{row}\n" for row in rows))
    assert [_valid_loss(tmp_path, epoch) for epoch in (1, 2, 3, 4)] == [4.5, 3.5, 3.75, None]
    assert _valid_loss(tmp_path / "missing", 1) is None


def test_finished_job_whose_text_was_prepared_again_is_refused(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["-m", *on_prepared("text"), *ONCE, "seed=1", "name=kinds"]
    train(words)
    monkeypatch.setattr("nmt.training.run.fit", Mock(side_effect=AssertionError))
    shutil.rmtree("text")
    on_prepared("text")  # the same text with the same settings
    train(words)
    shutil.rmtree("text")
    on_prepared("text", pairs=[pair[::-1] for pair in SENTENCES])
    refuse(words, r"^runs/kinds/run: data\.folder=text changed since it was trained; choose")
    shutil.rmtree("text")
    train(words)


def test_finished_job_whose_files_were_edited_is_refused(finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_parts(Path(), {"train": SENTENCES, "valid": SENTENCES})
    names = [f"data.{part}.{side}={part}.{side}" for part in ("train", "valid") for side in ("src", "tgt")]
    words = ["-m", *MODEL, *ONCE, "data=text", f"init_from={finished}", *names, "data.folder=.", "name=kinds"]
    train(words)
    monkeypatch.setattr("nmt.training.run.fit", Mock(side_effect=AssertionError))
    train(words)
    for edited, named in ((Path("valid.tgt"),) * 2, (Path("train.src"),) * 2, (finished / "model.pt", finished)):
        before = edited.read_bytes()
        edited.write_bytes(before[:-1])
        refuse(words, rf"^runs/kinds/run: {named} changed since it was trained; choose another")
        edited.write_bytes(before)
        train(words)
