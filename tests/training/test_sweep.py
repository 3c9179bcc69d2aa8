"""``nmt-train -m``: each job is the single run with its settings, and a second call trains only what is missing."""

from __future__ import annotations

import csv
import json
import re
from contextlib import chdir
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import Mock
from zipfile import ZipFile

import numpy as np
import pytest
from builders import call_before, expect_error
from hypothesis import given
from hypothesis import strategies as st
from tiny import NO_REPORT, SENTENCES, WITHOUT_ATTENTION, on_prepared, refuse, stop_at, summary

from nmt.commands.sweep import job_name, read_sweep
from nmt.commands.train import train
from nmt.config.compose import to_yaml, train_config
from nmt.errors import UserError
from nmt.files.atomic import lock_folder
from nmt.text.prepare import open_prepared
from nmt.training.task import TranslationTask

thorough = pytest.mark.thorough
WORDS = [*WITHOUT_ATTENTION, "training.max_epochs=1", "training.decode_sentences=0", "training.monitor=valid_loss"]
SWEPT = [*WORDS, "attention=luong,none", "seed=1,2", "name=kinds"]
KINDS = [{"attention": kind, "seed": seed} for kind, seed in product(("luong", "none"), "12")]


@pytest.mark.parametrize(
    ("words", "jobs"),
    [
        (["attention=luong,none", "seed=1,2", "training.max_epochs=7"], KINDS),
        (["attention=choice(luong,none)", "seed=range(1,3)", "threads=1,2", "threads=2"], KINDS),
        (["init_from=it's.en", "seed=1,2"], [{"seed": "1"}, {"seed": "2"}]),
    ],
)
def test_jobs_are_the_product_of_all_values(words: list[str], jobs: list[dict[str, str]]) -> None:
    found = read_sweep(words)
    assert [job.settings for job in found] == jobs
    for job in found:
        assert {word for word in words if "," not in word} | {"export=false"} <= {*job.arguments}


def test_a_setting_applies_to_the_jobs_whose_part_has_it(capsys: pytest.CaptureFixture[str]) -> None:
    jobs = read_sweep(["attention=luong,memory,low_rank", "attention.slots=16", "attention.score=dot", "seed=1,2"])
    attentions = [train_config(job.arguments).attention for job in jobs]
    assert [attention.get("slots") for attention in attentions] == [None, None, *[16] * 4]
    assert [attention.get("score") for attention in attentions] == ["dot", "dot", *[None] * 4]
    names = [re.findall(r"attention=(\w+)", line) for line in capsys.readouterr().err.splitlines()]
    assert names == [["luong"], ["memory", "low_rank"]]
    for job in read_sweep(["attention=luong,none", "attention.slots=8"]):
        with pytest.raises(UserError, match=r"^attention\.slots=8: "):  # no job has the key
            train_config(job.arguments)


@pytest.mark.parametrize(
    ("words", "folder"),
    [
        (["seed=1,2"], "runs/sweep"),
        (["seed=1,2", "name=mine", "runs=other"], "other/mine"),
        (["seed=1,2", "+experiment=memory_paper"], "runs/memory_paper"),
        (["+experiment=memory_paper,covariance_paper"], "runs/sweep"),
    ],
    ids=str,
)
def test_folder_is_named_by_the_sweep(words: list[str], folder: str) -> None:
    assert {job.folder.parent for job in read_sweep(words)} == {Path(folder)}


@pytest.mark.parametrize("letter", ["a", "字", "𝔞"])
@given(length=st.integers(1, 300))
def test_jobs_have_different_valid_folder_names(letter: str, length: int) -> None:
    values = [letter * length, "a/b", "a_b", "a:b", "'a/b'", "[1,2]", "[1;2]", ".."]
    names = [job_name([f"init_from={value}", "seed=1"]) for value in values]
    assert len(set(names)) == len(values)
    for name in names:
        assert len(name.encode()) <= 255 and not set(name) & set('/\\:*?"<>|')
    assert names[0] == job_name(["seed=1", f"init_from={letter * length}"])


@pytest.mark.parametrize(
    ("words", "key"),
    [
        (["seed=1,x"], "seed"),
        (["seed=1,2,1"], "seed"),
        (["attention=luong,none", "lr=3"], "lr"),
        (["attention=luong,memory", "attention.slots=0"], "attention.slots"),
        (["attention=luong,memory", "attention.slots=range(4,5)"], "attention.slots"),
        (["attention=glob(*_paper)"], "attention"),
        (["seed=1,2", "name=a,b"], "name"),
        (["seed=1,2", "name=a/b"], "name"),
        (["seed=1,2", "resume=true"], "resume"),
        (["seed=1,2", "hydra.run.dir=x"], "hydra.run.dir"),
        (["seed=interval(1,2)"], "seed"),
        (["seed=1,2", "name=single"], "name"),
    ],
    ids=str,
)
def test_wrong_sweep_is_refused_before_any_job_starts(run: Path, words: list[str], key: str) -> None:
    (single := run.parent / "single").mkdir(parents=True)
    (single / "summary.json").write_text("{}")
    expect_error(key, train, ["-m", *words])
    assert [*run.parent.iterdir()] == [single]


def test_finished_job_of_other_text_is_refused(run: Path) -> None:
    words = [*on_prepared("mine"), "attention=memory", "seed=1", "name=kinds"]
    ((_, arguments, folder),) = read_sweep(words)
    folder.mkdir(parents=True)
    for place in (folder, folder.parent):
        (place / ".lock").touch()
    (folder / "config.yaml").write_text(to_yaml(train_config(arguments)))
    (folder / "summary.json").write_text(
        json.dumps({"text_checksum": open_prepared(Path("mine")).checksum} | NO_REPORT)
    )
    Path("mine").rename("moved")
    train(["-m", *words, "data.folder=moved"])
    on_prepared("mine", pairs=[pair[::-1] for pair in SENTENCES])
    refuse(["-m", *words], r"^data\.folder=mine: ")


@thorough
def test_jobs_that_start_from_another_model_are_refused(finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def change(*_: object) -> None:
        with ZipFile(finished / "model.pt", "a") as archive:
            archive.writestr("archive/other", "")

    words = ["-m", f"init_from={finished}", "training.max_epochs=1", "name=further", "seed=1,2"]
    call_before(monkeypatch, TranslationTask, "on_train_end", change)
    refuse(words, "seed=2: init_from: has changed")  # during the call
    refuse(words, "seed=1: init_from changed")


# A sweep of four jobs.


@pytest.fixture(scope="module")
def swept_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which a sweep has finished. Only for reading, or for calls that train nothing."""
    with chdir(folder := tmp_path_factory.mktemp("swept")):
        train(["-m", *SWEPT])
    return folder


@pytest.fixture
def swept(swept_once: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to that folder and return the folder of the sweep. Fail if a finished job is trained again."""
    monkeypatch.chdir(swept_once)
    monkeypatch.setattr("nmt.commands.sweep.train_or_resume", Mock(side_effect=AssertionError))
    return swept_once / "runs" / "kinds"


def sweep_table(sweep: Path) -> list[dict[str, str]]:
    with (sweep / "sweep.csv").open(newline="") as file:
        return list(csv.DictReader(file))


@thorough
def test_table_has_mean_and_sample_deviation_over_the_seeds(swept: Path) -> None:
    rows = sweep_table(swept)
    assert [row["attention"] for row in rows] == ["luong", "none"]
    for row in rows:
        summaries = [summary(swept / f"attention={row['attention']},seed={seed}") for seed in (1, 2)]
        assert [item["seed"] for item in summaries] == [1, 2]
        losses = [item["valid_best"] for item in summaries]
        assert float(row["valid_best_mean"]) == pytest.approx(np.mean(losses))
        assert float(row["valid_best_sd"]) == pytest.approx(np.std(losses, ddof=1))
        assert float(row["chrf_mean"]) == pytest.approx(np.mean([item["test"]["chrf"] for item in summaries]))
        assert (row["n"], row["unfinished"], row["aer_mean"] == "") == ("2", "0", row["attention"] == "none")


@thorough
def test_second_call_trains_nothing_and_prints_the_same_table(swept: Path, capsys: Any) -> None:
    before = (swept / "sweep.csv").read_text()
    train(["-m", *SWEPT])
    assert (swept / "sweep.csv").read_text() == before
    output = capsys.readouterr().out
    assert all(name in output for name in ("luong", "none", "BLEU", "best valid"))
    refuse(["-m", *SWEPT, "search.beam_size=2"], "^search.beam_size=2: differs from")
    with lock_folder(swept):
        refuse(["-m", *SWEPT], "runs/kinds: another process")


@thorough
def test_interrupted_sweep_continues_and_a_failed_job_is_named(run: Path) -> None:
    size = "tokenizer.vocab_size=20000"
    words = ["-m", *WORDS, "batches.max_tokens=300", "tokenizer.vocab_size=280,20000,290", "name=sizes"]
    sweep = run.parent / "sizes"
    stop_at(2, words)
    assert [folder.name for folder in sweep.iterdir() if folder.is_dir()] == ["tokenizer.vocab_size=280"]
    with pytest.raises(UserError) as caught:
        train(words)
    assert len(caught.value.problems) == 2 and caught.value.problems[1].startswith(f"runs/sizes/{size}: {size}: ")
    rows = {row["tokenizer.vocab_size"]: (row["n"], row["unfinished"]) for row in sweep_table(sweep)}
    assert rows == {"280": ("1", "0"), "20000": ("0", "1"), "290": ("1", "0")}
    train([*WORDS, "batches.max_tokens=300", "tokenizer.vocab_size=280", "name=single"])
    for key in ("test", "valid_best"):
        assert summary(sweep / "tokenizer.vocab_size=280")[key] == summary(run.parent / "single")[key]
