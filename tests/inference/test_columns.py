"""Translate adds a column of translations to a batch, for every library that maps batches."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import save_random, tiny_config
from inference.random_translators import TOKENIZER

from nmt.inference.columns import Translate
from nmt.inference.translator import Translator
from nmt.search.options import SearchOptions

LINES = ["a small dog", "", "two cats sleep here today", "red houses", "a dog sees a dog"]
SEARCH = SearchOptions(beam_size=2, max_length=6)
SETTINGS: dict[str, Any] = {"engine": "torch", "threads": 1, "search": SEARCH}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a model whose attention reads at most 40 pieces."""
    folder = tmp_path_factory.mktemp("columns") / "run"
    config = tiny_config({"_target_": "nmt.attention.LowRankAttention", "slots": 3})
    save_random(folder, config, TOKENIZER, scale=3.0)
    return folder


@pytest.fixture(scope="module")
def expected(run: Path) -> list[str]:
    return Translator.load(run, engine="torch", threads=1).texts(LINES, SEARCH)


def test_a_pickled_object_finds_its_model_and_adds_a_column(
    run: Path, expected: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(run.parent)
    translate = Translate(model=run.name, column="en", output="de", **SETTINGS)
    assert translate({"en": LINES[:1]})["de"] == expected[:1]
    monkeypatch.chdir(tmp_path)
    stored = pickle.dumps(translate)
    assert len(stored) < 2000  # without the model
    batch = {"id": [1, 2, 3], "en": np.array(["a small dog", None, "red houses"], dtype=object)}
    assert pickle.loads(stored)(batch) == {**batch, "de": [expected[0], None, expected[3]]}


def test_a_line_that_is_too_long_has_a_warning_and_an_empty_translation(run: Path, expected: list[str]) -> None:
    with pytest.warns(UserWarning, match="^row 1 of a batch: .*its translation is empty"):
        result = Translate(model=[run, run], **SETTINGS)({"text": [None, "dog " * 60, *LINES]})
    assert result["translation"] == [None, "", *expected]
