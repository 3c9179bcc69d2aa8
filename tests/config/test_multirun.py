"""Sweeps are composed by Hydra: their jobs, their folders, their plug-ins, and what they refuse."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
from builders import expect_error
from hypothesis import given
from hypothesis import strategies as st

from nmt.commands.train import train
from nmt.config.compose import train_config
from nmt.config.multirun import job_name, read_multirun


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


PAPERS = [["attention=covariance_paper"], ["attention=memory_paper"]]
KINDS = [[kind, seed] for kind, seed in product(["attention=luong", "attention=none"], ["seed=1", "seed=2"])]


@pytest.mark.parametrize(
    ("words", "jobs"),
    [
        (["attention=luong,none", "seed=1,2", "training.max_epochs=7"], KINDS),
        (["attention=choice(luong,none)", "seed=range(1,3)"], KINDS),
        (["attention=glob(*_paper)"], PAPERS),
        (["init_from=it's.en", "seed=1,2"], [["seed=1"], ["seed=2"]]),
        (["attention=luong,luong", "attention.score=dot"], [["attention=luong"]] * 2),
    ],
)
def test_jobs_are_the_product_of_all_values(words: list[str], jobs: list[list[str]]) -> None:
    multirun = read_multirun(words)
    assert multirun.jobs is not None and sorted(job.swept for job in multirun.jobs) == jobs
    assert multirun.fixed == [*(word for word in words if "." in word), "export=false"]
    if "attention.score=dot" in words:  # the default attention has no such key
        assert all(train_config([*job.fixed, *job.swept]).attention["score"] == "dot" for job in multirun.jobs)


@pytest.mark.parametrize(
    ("words", "folder"),
    [
        (["seed=1,2"], "runs/sweep"),
        (["seed=1,2", "name=mine", "runs=other"], "other/mine"),
        (["seed=1,2", "+experiment=memory_paper"], "runs/memory_paper"),
        (["+experiment=memory_paper,covariance_paper"], "runs/sweep"),
        (["seed=1,2", "hydra.sweep.dir=a/b"], "a/b"),
    ],
    ids=str,
)
def test_folder_is_named_by_the_sweep(words: list[str], folder: str) -> None:
    assert read_multirun(words).folder == Path(folder)


@pytest.mark.parametrize("letter", ["a", "é", "字", "𝔞"])
@given(length=st.integers(1, 300))
def test_jobs_have_different_valid_folder_names(letter: str, length: int) -> None:
    values = [letter * length, "a/b", "a_b", "a:b", "'a/b'", "[1,2]", "[1;2]", ".."]
    names = [job_name([f"init_from={value}", "seed=1"]) for value in values]
    assert len(set(names)) == len(values)
    for name in names:
        assert len(f"{name}.log".encode()) <= 255 and not set(name) & set('/\\:*?"<>|')
    assert names[0] == job_name(["seed=1", f"+init_from={letter * length}"])


@pytest.mark.parametrize(
    ("words", "key"),
    [
        (["seed=1,x"], "seed"),
        (["attention=luong,none", "lr=3"], "lr"),
        (["attention=luong,none", "attention.score=dot"], "attention.score"),
        (["seed=1,2", "name=a,b"], "name"),
        (["seed=1,2", "name=a/b"], "name"),
        (["seed=1,2", "resume=true"], "resume"),
        (["seed=1,2", "hydra.run.dir=x"], "hydra.run.dir"),
        (["seed=interval(1,2)"], "seed"),
    ],
    ids=str,
)
def test_wrong_sweep_is_refused_before_any_job_starts(words: list[str], key: str, tmp_path: Path) -> None:
    expect_error(key, train, ["-m", *words])
    assert list(tmp_path.iterdir()) == []


def test_folder_of_a_single_run_is_refused(tmp_path: Path) -> None:
    (tmp_path / "runs" / "demo").mkdir(parents=True)
    (tmp_path / "runs" / "demo" / "summary.json").write_text("{}")
    expect_error("name", train, ["-m", "seed=1,2", "name=demo"])


@pytest.mark.parametrize(("monitor", "direction"), [("valid_loss", "minimize"), ("valid_bleu", "maximize")])
def test_direction_of_a_sweeper_follows_the_monitored_value(monitor: str, direction: str) -> None:
    pytest.importorskip("hydra_plugins.hydra_optuna_sweeper", reason="hydra-optuna-sweeper is not installed")
    words = ["hydra/sweeper=optuna", "optimizer.lr=interval(0.001,0.01)", f"training.monitor={monitor}"]
    multirun = read_multirun(words)
    assert multirun.jobs is None and f"hydra.sweeper.direction={direction}" in multirun.overrides
    assert f"hydra.sweeper.direction={direction}" not in read_multirun([*words, "hydra.sweeper.direction=x"]).overrides
