"""A run's folder says where the run comes from, and keeps the checkpoints that were asked for."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny import summary

import nmt
from nmt.inference.model_folder import load_folder
from nmt.text.prepare import open_prepared
from nmt.training.provenance import commit, commit_text
from nmt.training.report import score_limits

pytestmark = pytest.mark.thorough


def test_summary_records_seed_settings_versions_and_machine(finished: Path) -> None:
    content = summary(finished)
    assert content["seed"] == 1 and (finished / content["settings"]).is_file()
    assert content["toolkit"]["version"] == nmt.__version__
    names = {"torch", "pytorch-lightning", "hydra-core", "sentencepiece", "sacrebleu", "numpy"}
    assert content["versions"] == {
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in names},
    }
    assert content["machine"]["threads"] == 1 and content["machine"]["processor"]


def test_card_has_the_scores_and_names_no_folder(finished: Path) -> None:
    content = summary(finished)
    card = (finished / "card.md").read_text("utf-8")
    for name, label in (("bleu", "BLEU"), ("chrf", "chrF")):
        assert f"- {label} {content['test'][name]:.2f} (`{content['signatures'][name]}`)" in card
    lines = {part: (finished / f"test.{part}.txt").read_text("utf-8").count("\n") for part in ("source", "references")}
    assert set(lines.values()) == {content["pairs"]["test"]}
    for part, count in content["pairs"].items():
        assert f" {count:,} for {part}" in card
    sources = open_prepared(finished / "data").corpora["train"].sources()
    longest = max(map(len, load_folder(finished).source.encode_all(sources)))
    assert f"Its longest training sentence had {longest} source pieces:" in card
    assert str(finished.parent) not in card


def git(folder: Path, *words: str) -> str:
    name = ["-c", "user.name=a", "-c", "user.email=a@b"]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    command = ["git", "-C", str(folder), *name, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout.strip()


def test_commit_is_that_of_the_checkout_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "file").write_text("a")
    git(tmp_path, "add", "file")
    git(tmp_path, "commit", "-qm", "x")
    expected = git(tmp_path, "rev-parse", "HEAD")
    assert commit(tmp_path) == {"commit": expected, "changed": False} and commit_text(commit(tmp_path)) == expected
    (tmp_path / "untracked").touch()
    assert commit(tmp_path)["changed"] is False
    (tmp_path / "file").write_text("b")
    assert commit(tmp_path) == {"commit": expected, "changed": True}
    assert commit_text(commit(tmp_path)) == f"{expected} with changes"
    monkeypatch.setenv("GIT_DIR", "/nowhere")  # as in a git hook
    assert commit(tmp_path)["commit"] == expected
    (tmp_path / "site-packages").mkdir()  # an environment inside someone else's checkout
    assert commit(tmp_path / "site-packages") == {"commit": None, "changed": None}
    assert commit_text(commit(tmp_path / "site-packages")) == "unknown"
    monkeypatch.setenv("PATH", "")
    assert commit(tmp_path) == {"commit": None, "changed": None}


@given(st.lists(st.floats(0, 100), min_size=1, max_size=9))
def test_score_axis_fits_the_scores(scores: list[float]) -> None:
    low, high = score_limits(scores)
    span = max(max(scores) - min(scores), 2.0)
    assert 0 <= low <= min(scores) and max(scores) <= high <= 100
    assert high - low <= 1.1 * span + 1e-9 and high - low >= 2 - 1e-9
