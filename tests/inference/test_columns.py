"""Translate maps a batch of columns to the same batch with translations, in every library that maps batches."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import random_model, tiny_config

from nmt.errors import UserError
from nmt.inference import Translate
from nmt.inference.model_folder import TrainedModel, save_folder
from nmt.inference.onnx.export import export
from nmt.inference.translator import Translator
from nmt.search.options import SearchOptions
from nmt.text.tokenizer import Tokenizer

ROOT = Path(__file__).resolve().parents[2]
LINES = ["a small dog", "", "two cats sleep here today", "red houses", "a dog sees a dog"] * 3
SEARCH = SearchOptions(beam_size=2, max_length=6)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of an exported model whose attention reads at most 40 pieces."""
    folder = tmp_path_factory.mktemp("columns") / "run"
    tokenizer = Tokenizer.train([" ".join(LINES)], vocab_size=290)
    config = tiny_config({"_target_": "nmt.attention.LowRankAttention", "slots": 3})
    model = random_model(config, scale=3.0)
    trained = TrainedModel(model, tokenizer, tokenizer, config, 40)
    folder.mkdir()
    save_folder(folder, trained)
    export(trained, folder, engines=["onnx"])
    return folder


@pytest.fixture(scope="module")
def expected(run: Path) -> list[str]:
    texts = Translator.load(run, engine="onnx", threads=1).texts(LINES, SEARCH)
    assert len(set(texts)) > 3
    return texts


@pytest.fixture
def translate(run: Path) -> Translate:
    return Translate(model=run, engine="onnx", threads=1, search=SEARCH)


def test_a_column_of_translations_is_added(translate: Translate, expected: list[str]) -> None:
    batch = {"number": list(range(len(LINES))), "text": LINES}
    assert translate(batch) == {**batch, "translation": expected}
    assert set(batch) == {"number", "text"}


def test_arrays_give_arrays_and_scores_have_a_column(run: Path, expected: list[str]) -> None:
    translate = Translate(model=run, engine="onnx", threads=1, search=SEARCH, column="en", output="de", scores="score")
    best = Translator.load(run, engine="onnx", threads=1).translate(LINES, SEARCH)
    for source in (np.array(LINES, dtype=object), np.array(LINES)):
        result = translate({"en": source})
        assert result["de"].tolist() == expected and result["de"].dtype == object
        np.testing.assert_allclose(result["score"], [translation.score for translation in best])


def test_rows_without_text_have_no_translation(translate: Translate, expected: list[str]) -> None:
    assert translate({"text": [None, *LINES, None]})["translation"] == [None, *expected, None]
    assert translate({"text": []})["translation"] == []


def test_a_line_that_is_too_long_warns_with_its_row(translate: Translate, expected: list[str]) -> None:
    with pytest.warns(UserWarning, match=r"^row 1 of a batch: a source of .* reads at most 40.*; its translation is"):
        result = translate({"text": [None, "dog " * 60, *LINES]})
    assert result["translation"] == [None, "", *expected]


def test_wrong_columns_are_named(translate: Translate) -> None:
    with pytest.raises(UserError, match=r"^column=text: not in the batch; it has src, n$"):
        translate({"src": ["a"], "n": [1]})
    with pytest.raises(TypeError, match=r"^row 1: 3: int, neither a string nor None$"):
        translate({"text": ["a", 3]})


def test_a_pickled_object_loads_the_model_where_it_is_called(
    translate: Translate, expected: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    translate({"text": LINES})
    stored = pickle.dumps(translate)
    assert len(stored) < 2000  # without the model
    code = f"import pickle; print(pickle.loads({stored!r})({{'text': {LINES!r}}})['translation'])"
    process = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert process.stdout.strip() == repr(expected), process.stderr
    before = translate.translator
    assert translate.translator is before
    monkeypatch.setattr(os, "getpid", lambda: -1)  # as in a forked child
    assert translate.translator is not before


def test_a_relative_folder_is_found_from_another_working_directory(
    run: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(run.parent)
    translate = Translate(model=run.name, engine="onnx", threads=1, search=SEARCH)
    monkeypatch.chdir(tmp_path)
    assert len(translate({"text": ["a dog"]})["translation"]) == 1


def test_pandas_frames_of_spark(translate: Translate, expected: list[str]) -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    frames = [pandas.DataFrame({"text": LINES, "id": range(len(LINES))}, index=range(5, 5 + len(LINES)))] * 2
    for frame in (pandas.DataFrame(translate(frame)) for frame in frames):  # the body of mapInPandas
        assert frame["translation"].tolist() == expected and frame["id"].tolist() == list(range(len(LINES)))


@pytest.mark.parametrize("processes", [None, 2])
def test_hugging_face_datasets(
    translate: Translate, expected: list[str], processes: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    rows = datasets.Dataset.from_dict({"text": LINES, "id": list(range(len(LINES)))})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of libraries
        result = rows.map(translate, batched=True, batch_size=4, num_proc=processes)
    assert result["translation"][:] == expected and result["id"][:] == list(range(len(LINES)))


def test_ray_data(run: Path, expected: list[str]) -> None:
    ray: Any = pytest.importorskip("ray", reason="ray is not installed: pip install nmt-memory-attention[ray]")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of libraries
        ray.init(num_cpus=2, include_dashboard=False, runtime_env={"env_vars": {"PYTHONPATH": str(ROOT)}})
        try:
            rows = ray.data.from_items([{"id": row, "text": line} for row, line in enumerate(LINES)])
            settings = {"model": str(run), "engine": "onnx", "threads": 1, "search": SEARCH}
            translated = rows.map_batches(
                Translate, fn_constructor_kwargs=settings, concurrency=2, num_cpus=1, batch_size=4
            )
            by_id = {row["id"]: row["translation"] for row in translated.take_all()}
        finally:
            ray.shutdown()
    assert by_id == dict(enumerate(expected))
