"""``nmt-train -m``: each job is the single run with its settings, and a second call trains only what is missing."""

from __future__ import annotations

import csv
from contextlib import chdir
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from tiny import WITHOUT_ATTENTION, record_batches, refuse, stop_at, summary

from nmt.commands.sweep import write_table
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
        assert float(row["valid_best_mean"]) == pytest.approx(np.mean(losses))
        assert float(row["valid_best_sd"]) == pytest.approx(np.std(losses, ddof=1))
        assert float(row["chrf_mean"]) == pytest.approx(np.mean([item["test"]["chrf"] for item in summaries]))
        assert float(row["tokens_per_s_mean"]) == pytest.approx(np.mean([item["tokens_per_s"] for item in summaries]))
        assert (row["n"], row["unfinished"], row["aer_mean"] == "") == ("2", "0", row["attention"] == "none")


def test_second_call_trains_nothing_and_prints_the_same_table(swept: Path, no_training: None, capsys: Any) -> None:
    before = (swept / "sweep.csv").read_text()
    train(["-m", *SWEPT])
    output = capsys.readouterr()
    assert output.err.count("has finished already; skipped") == 4
    assert (swept / "sweep.csv").read_text() == before
    assert "runs/kinds: mean ± standard deviation over n jobs" in output.out
    for name in ("luong", "none", "BLEU", "best valid"):
        assert name in output.out


def test_sweep_that_cannot_continue_starts_no_job(swept: Path, no_training: None) -> None:
    refuse(["-m", *SWEPT, "attention=luong", "search.beam_size=2"], "^search.beam_size=2: differs from")
    with lock_folder(swept):
        refuse(["-m", *SWEPT], "runs/kinds: another process")


def test_interrupted_sweep_continues(run: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    words = [*WORDS, "batches.max_tokens=300"]
    stop_at(2, ["-m", *words, "seed=1,2"])
    assert "stopped after 0 finished jobs" in capsys.readouterr().err
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
    assert f"sizes/{sizes}: {sizes}: " in str(caught.value)
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
    jobs: list[dict[str, Any]] = [
        {"settings": {"seed": "1", "a": "x"}, "error": None, "bleu": 1.0},
        {"settings": {"seed": "2", "a": "x"}, "error": "failed"},
        {"settings": {"seed": "3", "a": "x"}, "error": None, "bleu": 4.0},
        {"settings": {"seed": "1", "a": "y"}, "error": None, "bleu": None},
    ]
    write_table(jobs, tmp_path)
    columns = ("a", "n", "unfinished", "bleu_mean")
    x, y = ([row[column] for column in columns] for row in sweep_table(tmp_path))
    assert x == ["x", "2", "1", "2.5"]
    assert y == ["y", "1", "0", ""]
