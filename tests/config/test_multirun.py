"""Sweeps are composed by Hydra: their jobs, their folders, their plug-ins, and what they refuse."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
from builders import expect_error, refusal
from hypothesis import given
from hypothesis import strategies as st

from nmt.commands.train import train
from nmt.config.compose import train_config
from nmt.config.multirun import job_name, read_multirun


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def jobs_of(*words: str) -> list[list[str]]:
    jobs = read_multirun(words).jobs
    assert jobs is not None
    return [job.swept for job in jobs]


def test_jobs_are_the_product_of_all_values() -> None:
    expected = [list(words) for words in product(["attention=luong", "attention=none"], ["seed=1", "seed=2", "seed=3"])]
    assert jobs_of("attention=luong,none", "seed=1,2,3", "training.max_epochs=7") == expected
    assert jobs_of("attention=choice(luong,none)", "seed=range(1,4)") == expected


def test_glob_sweeps_over_the_choices_of_a_group() -> None:
    expected = [["attention=covariance_paper"], ["attention=memory_paper"]]
    assert sorted(jobs_of("attention=glob(*_paper)")) == expected


@pytest.mark.parametrize("text", ["jürgen.en", "it's.en", "a b.en", "a(1).en", "'a,b.en'"])
def test_special_characters_in_fixed_text_are_kept(text: str) -> None:
    multirun = read_multirun([f"init_from={text}", "seed=1,2"])
    assert multirun.fixed == [f"init_from={text}", "export=false"]
    assert jobs_of(f"init_from={text}", "seed=1,2") == [["seed=1"], ["seed=2"]]


def test_listed_text_may_have_any_letters() -> None:
    (first,), (second,) = jobs_of("init_from=jürgen,zoë")
    assert [first, second] == ["init_from='jürgen'", "init_from='zoë'"]
    assert job_name([first]) != job_name([second])


def test_key_of_a_swept_group_may_be_set_where_the_default_lacks_it() -> None:
    multirun = read_multirun(["attention=luong,local", "attention.score=dot"])
    assert multirun.jobs is not None
    for job in multirun.jobs:
        assert train_config([*job.fixed, *job.swept]).attention["score"] == "dot"


@pytest.mark.parametrize(
    ("words", "folder"),
    [
        (["seed=1,2"], "runs/sweep"),
        (["seed=1,2", "name=mine"], "runs/mine"),
        (["seed=1,2", "name=mine", "runs=other"], "other/mine"),
        (["seed=1,2", "+experiment=memory_paper"], "runs/memory_paper"),
        (["+experiment=memory_paper,covariance_paper"], "runs/sweep"),
        (["seed=1,2", "hydra.sweep.dir=a/b"], "a/b"),
    ],
    ids=str,
)
def test_folder_is_named_by_the_sweep(words: list[str], folder: str) -> None:
    assert read_multirun(words).folder == Path(folder)


def test_jobs_have_different_valid_folder_names() -> None:
    values = ["a/b", "a_b", "a:b", "'a/b'", "x" * 300, "x" * 301, "[1,2]", "[1;2]", "..", "é"]
    names = [job_name([f"init_from={value}", "seed=1"]) for value in values]
    assert len(set(names)) == len(values)
    for name in names:
        assert len(name) < 150 and not set(name) & set('/\\:*?"<>|')
    for words in (["seed=1", "+attention=luong"], ["attention=luong", "seed=1"]):
        assert job_name(words) == "attention=luong,seed=1"


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["seed=1,x"], "seed=x: must be a whole number (conf/train.yaml) (job seed=x)"),
        (["attention=luong,none", "lr=3"], "lr: no such key; use optimizer.lr"),
        (["attention=luong,sparse", "attention.keep=3"], "attention.keep: no such key; attention=sparse has it ("),
        (["seed=1,2", "name=a,b"], "name=a,b: names the sweep; give one name"),
        (["seed=1,2", "runs=a,b"], "runs=a,b: is the parent folder of the sweep"),
        (["seed=1,2", "resume=true"], "resume=true: a sweep continues by itself; repeat its command"),
        (["seed=1,2", "hydra.run.dir=x"], "hydra.run.dir=x: has no effect here; remove it"),
        (["seed=1,2", "hydra/launcher=job"], "hydra/launcher=job: no such choice; choose from basic"),
        (["seed=1,2", "hydra.sweep.folder=x"], "hydra.sweep.folder: no such key"),
        (["seed=interval(1,2)"], "seed=interval(1,2): Hydra's own sweeper needs a list of values; write seed=1,2,3"),
    ],
    ids=str,
)
def test_wrong_sweep_is_refused_before_any_job_starts(words: list[str], message: str, tmp_path: Path) -> None:
    assert message in refusal(train, ["-m", *words])
    assert list(tmp_path.iterdir()) == []


def test_folder_of_a_single_run_is_refused(tmp_path: Path) -> None:
    (tmp_path / "runs" / "demo").mkdir(parents=True)
    (tmp_path / "runs" / "demo" / "summary.json").write_text("{}")
    expect_error(
        "name=demo: runs/demo is a single run, not a sweep; choose another name=",
        train,
        ["-m", "seed=1,2", "name=demo"],
    )


@pytest.mark.parametrize("words", [["seed=1,2"], ["attention=luong,none"], ["seed=range(1,3)"]])
def test_several_values_without_m_lead_to_m(words: list[str]) -> None:
    expect_error("; to train once per value, add -m", train, words)


def test_launcher_without_m_leads_to_m() -> None:
    expect_error("hydra/launcher=joblib: has an effect only in a sweep; add -m", train, ["hydra/launcher=joblib"])


@pytest.mark.parametrize(
    ("module", "setting", "extra", "words"),
    [
        ("hydra_joblib_launcher", "hydra/launcher=joblib", "sweeps", ["hydra.launcher.n_jobs=2"]),
        ("hydra_submitit_launcher", "hydra/launcher=submitit_slurm", "submitit", ["hydra.launcher.timeout_min=60"]),
        ("hydra_optuna_sweeper", "hydra/sweeper=optuna", "optuna", ["hydra.sweeper.n_trials=5"]),
    ],
)
def test_plugin_is_composed_or_its_extra_is_named(module: str, setting: str, extra: str, words: list[str]) -> None:
    try:
        __import__(f"hydra_plugins.{module}")
    except ImportError:
        message = rf"{setting}: needs the extra {extra}; in the clone: pip install '.\[{extra}\]'"
        expect_error(message, read_multirun, [setting, *words, "seed=1,2"])
        pytest.skip(f"{module} is not installed")
    multirun = read_multirun([setting, *words, "seed=1,2"])
    assert (multirun.jobs is None) == (extra == "optuna")


@pytest.mark.parametrize(
    ("monitor", "direction"),
    [("valid_loss", "minimize"), *((f"valid_{name}", "maximize") for name in ("bleu", "chrf", "accuracy"))],
)
def test_direction_follows_the_monitored_value(monitor: str, direction: str) -> None:
    pytest.importorskip("hydra_plugins.hydra_optuna_sweeper", reason="hydra-optuna-sweeper is not installed")
    words = ["hydra/sweeper=optuna", f"training.monitor={monitor}", "optimizer.lr=interval(0.001,0.01)"]
    assert f"hydra.sweeper.direction={direction}" in read_multirun(words).overrides
    given = read_multirun([*words, "hydra.sweeper.direction=minimize"]).overrides
    assert [word for word in given if "direction" in word] == ["hydra.sweeper.direction=minimize"]
    expect_error(
        "jobs with different objectives cannot be compared",
        read_multirun,
        ["hydra/sweeper=optuna", "training.monitor=valid_loss,valid_bleu"],
    )


@pytest.mark.parametrize("letter", ["a", "é", "字", "𝔞"])
@given(length=st.integers(1, 300))
def test_names_of_jobs_fit_into_file_systems(letter: str, length: int) -> None:
    name = job_name([f"init_from={letter * length}", "seed=1"])
    assert len(f"{name}.log".encode()) <= 255
    assert name == job_name(["seed=1", f"init_from={letter * length}"])
    assert name != job_name([f"init_from={letter * length}", "seed=2"])
