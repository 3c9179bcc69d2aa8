"""Translate maps a batch of columns to the same batch with translations, in every library that maps batches."""

from __future__ import annotations

import inspect
import os
import pickle
import sys
import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from signal import SIGKILL
from socket import socket
from threading import Event, Thread
from typing import Any
from uuid import uuid4

import numpy as np
import pytest
from builders import save_random, tiny_config
from commands.processes import run_python

from nmt.commands import streams
from nmt.commands.translate import translate as translate_command
from nmt.errors import UserError
from nmt.inference import Translate
from nmt.inference.model_folder import load_folder
from nmt.inference.onnx.export import export
from nmt.inference.ray_actors import _require_answer
from nmt.inference.translator import Translator
from nmt.search.options import SearchOptions
from nmt.text.tokenizer import Tokenizer

ROOT = Path(__file__).resolve().parents[2]
LINES = ["a small dog", "", "two cats sleep here today", "red houses", "a dog sees a dog"] * 3
MARK = uuid4().hex
SEARCH = SearchOptions(beam_size=2, max_length=6)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of an exported model whose attention reads at most 40 pieces."""
    folder = tmp_path_factory.mktemp("columns") / "run"
    config = tiny_config({"_target_": "nmt.attention.LowRankAttention", "slots": 3})
    save_random(folder, config, Tokenizer.train([" ".join(LINES)], vocab_size=290), scale=3.0)
    return folder


@pytest.fixture(scope="module")
def exported(run: Path) -> Path:
    """The same folder with graphs, which take seconds to write."""
    export(load_folder(run), run, engines=["onnx"])
    return run


@pytest.fixture(scope="module")
def expected(run: Path) -> list[str]:
    texts = Translator.load(run, engine="torch", threads=1).texts(LINES, SEARCH)
    assert len(set(texts)) > 3
    return texts


@pytest.fixture
def translate(run: Path) -> Translate:
    return Translate(model=run, engine="torch", threads=1, search=SEARCH)


def test_arrays_give_arrays_and_scores_have_a_column(run: Path, expected: list[str]) -> None:
    translate = Translate(model=run, engine="torch", threads=1, search=SEARCH, column="en", output="de", scores="score")
    best = Translator.load(run, engine="torch", threads=1).translate(LINES, SEARCH)
    for source in (np.array(LINES, dtype=object), np.array(LINES)):
        batch = {"number": [*range(len(LINES))], "en": source}
        result = translate(batch)
        assert [*batch] == ["number", "en"] and [*result] == ["number", "en", "de", "score"]
        assert result["number"] == batch["number"] and result["en"] is source
        assert result["de"].tolist() == expected and result["de"].dtype == object
        np.testing.assert_allclose(result["score"], [translation.score for translation in best])


def test_several_models_are_an_ensemble(
    exported: Path, expected: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(exported.parent)
    translate = Translate(model=[exported.name, Path(exported.name)], engine="torch", threads=1, search=SEARCH)
    monkeypatch.chdir(tmp_path)
    assert translate({"text": LINES})["translation"] == expected


MISSING: list[Any] = [None, float("nan"), np.float32("nan"), np.ma.masked]


@pytest.mark.parametrize("missing", MISSING, ids=repr)
def test_missing_values_stay_in_their_rows(run: Path, missing: Any, expected: list[str]) -> None:
    translate = Translate(model=run, engine="torch", threads=1, search=SEARCH, scores="score")
    for source in ([LINES[0], missing, LINES[3], missing], np.array([LINES[0], missing, LINES[3], missing], object)):
        result = translate({"text": source})
        assert list(result["translation"]) == [expected[0], None, expected[3], None]
        assert [score is None for score in result["score"]] == [False, True, False, True]
    masked = np.ma.array(LINES[:4], dtype=object, mask=[0, 0, 1, 0])
    assert translate({"text": masked})["translation"].tolist() == [*expected[:2], None, expected[3]]
    assert translate({"text": [missing]})["translation"] == [None] and translate({"text": []})["translation"] == []


@pytest.mark.parametrize("dtype", ["object", "str", "string", "string[pyarrow]", "category"])
@pytest.mark.parametrize("missing", ["None", "nan", "NA", "NaT"])
def test_missing_values_of_pandas(translate: Translate, expected: list[str], dtype: str, missing: str) -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    if "pyarrow" in dtype:
        pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    value = {"None": None, "nan": float("nan"), "NA": pandas.NA, "NaT": pandas.NaT}[missing]
    column = pandas.Series([LINES[0], value, LINES[3]], index=[7, 5, 9], dtype="object")
    if dtype != "str" or pandas.__version__ >= "3":  # str of pandas 2 makes text of missing values
        column = column.astype(dtype)
    frame = pandas.DataFrame({"id": pandas.Series([1, 2, 3], index=column.index), "text": column})
    result = translate(frame)
    assert result["translation"] == [expected[0], None, expected[3]]
    assert pandas.DataFrame(result)["translation"].isna().tolist() == [False, True, False]


@pytest.mark.parametrize("library", ["pyarrow", "polars", "datasets"])
def test_tables_of_other_libraries(
    library: str, translate: Translate, expected: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    package: Any = pytest.importorskip(library, reason=f"{library} is not installed")
    columns = {"text": [LINES[0], None, LINES[3]], "id": [1, 2, 3]}
    batches: list[Any] = []
    if library == "pyarrow":
        table = package.table(columns)
        batches = [table, table.to_batches()[0], {"text": table["text"]}, {"text": table["text"].combine_chunks()}]
        assert package.table(translate(table)).column_names == ["text", "id", "translation"]
    elif library == "polars":
        batches = [package.DataFrame(columns)]
        assert package.DataFrame(translate(batches[0])).columns == ["text", "id", "translation"]
    for batch in batches:
        assert translate(batch)["translation"] == [expected[0], None, expected[3]]
    for form in (None, "numpy", "arrow") if library == "datasets" else ():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of libraries
            result = package.Dataset.from_dict(columns).with_format(form).map(translate, batched=True).with_format(None)
        assert list(result["translation"]) == [expected[0], None, expected[3]]


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
    process = run_python(code, env={"OMP_NUM_THREADS": "1"}, cwd=tmp_path)
    assert process.stdout.strip() == repr(expected), process.stderr
    before = translate.translator
    assert translate.translator is before
    monkeypatch.setattr(os, "getpid", lambda: -1)  # as in a forked child
    assert translate.translator is not before


def test_a_relative_folder_is_found_from_another_working_directory(
    run: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(run.parent)
    translate = Translate(model=run.name, engine="torch", threads=1, search=SEARCH)
    monkeypatch.chdir(tmp_path)
    assert len(translate({"text": ["a dog"]})["translation"]) == 1


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    """The package ray, started once on this machine. Its processes have MARK in their environment."""
    package: Any = pytest.importorskip("ray", reason="ray is not installed: pip install nmt-memory-attention[ray]")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of libraries
        environment = {"env_vars": {"PYTHONPATH": str(ROOT), "NMT_TEST": MARK}}
        package.init(
            num_cpus=2,
            object_store_memory=100 << 20,
            include_dashboard=False,
            log_to_driver=False,
            runtime_env=environment,
        )
        yield package
        package.shutdown()


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore")  # of libraries
def test_ray_data(ray: Any, exported: Path, expected: list[str]) -> None:
    rows = ray.data.from_items([{"id": row, "text": line} for row, line in enumerate(LINES)])
    settings = {"model": str(exported), "engine": "onnx", "threads": 1, "search": SEARCH}
    translated = rows.map_batches(Translate, fn_constructor_kwargs=settings, concurrency=2, num_cpus=1, batch_size=4)
    by_id = {row["id"]: row["translation"] for row in translated.take_all()}
    assert by_id == dict(enumerate(expected))


def actors() -> list[int]:
    """Return the processes of the actors that translate shards."""
    processes = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if b"ShardActor" in (process / "cmdline").read_bytes() and MARK in (process / "environ").read_text():
                processes.append(int(process.name))
    return processes


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore")  # of libraries
@pytest.mark.attack("kill -9 of workers")
@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=pytest.mark.slow)])
def test_killed_ray_actors_lose_and_repeat_no_line(
    ray: Any,
    exported: Path,
    kills: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(streams, "GROUP", 4)
    monkeypatch.chdir(tmp_path)
    Path("in.txt").write_text("".join(f"{line}\n" for line in LINES * 30))
    words = [f"model={exported}", "engine=onnx", "input=in.txt", "alignments=links", "search.n_best=2"]
    translate_command([*words, "output=one.txt", "threads=1"])
    expected_files = [Path(name).read_bytes() for name in ("one.txt", "links")]
    killed: list[int] = []
    stop = Event()

    def kill() -> None:
        random = Random(kills)
        while len(killed) < kills and not stop.wait(random.uniform(0, 0.1)):
            finished = len(list(Path("two.txt.shards").glob("*.shard")))
            if finished * (kills + 2) > 100 * (len(killed) + 1) and (processes := actors()):
                killed.append(random.choice(processes))
                os.kill(killed[-1], SIGKILL)

    killer = Thread(target=kill)
    killer.start()
    try:
        translate_command([*words, "output=two.txt", "workers=2", "cluster=ray"])
    finally:
        stop.set()
        killer.join()
    assert [Path(name).read_bytes() for name in ("two.txt", "links")] == expected_files
    assert len(killed) == kills and sorted(os.listdir()) == ["in.txt", "links", "one.txt", "two.txt"]
    assert capfd.readouterr().err.count("; trying them again") >= 1


@pytest.mark.parametrize("address", ["127.0.0.1:{port}", "ray://127.0.0.1:{port}"])
def test_address_where_nothing_listens_is_refused_at_once(address: str) -> None:
    with socket() as unused:
        unused.bind(("127.0.0.1", 0))
        place = address.format(port=unused.getsockname()[1])
        with pytest.raises(UserError, match=rf"^address={place}: no Ray cluster \(.*refused\); start one"):
            _require_answer(place)


def test_cluster_without_ray_is_refused(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)  # as if it were not installed
    words = [
        f"model={run}",
        "engine=torch",
        f"input={run}/model.pt",
        f"output={tmp_path}/out",
        "workers=2",
        "cluster=ray",
    ]
    with pytest.raises(UserError, match=r"^cluster=ray: the package ray is not installed; install it with pip install"):
        translate_command(words)
    assert list(tmp_path.iterdir()) == []


def test_every_setting_of_the_translator_can_be_given() -> None:
    settings = {*inspect.signature(Translator.load).parameters} - {"folder"}
    assert settings == {*vars(Translate(model="x").settings)}
    assert settings <= {*inspect.signature(Translate).parameters}
