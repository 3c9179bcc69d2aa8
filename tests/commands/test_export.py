"""nmt-export: writes files that nmt-translate runs without torch."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from builders import expect_error
from commands.processes import run_without_torch
from commands.texts import TEXT, Call
from small_text import SETTINGS

from nmt.commands.export import export
from nmt.commands.translate import translate
from nmt.data.filters import Filters
from nmt.data.pair import Pair
from nmt.inference.model_folder import load_folder
from nmt.inference.onnx.model import OnnxModel, exported_engines
from nmt.inference.translator import Translator
from nmt.text.prepare import prepare
from nmt.text.tokenizer import Tokenizer


@pytest.mark.thorough
def test_onnx_translations_equal_torch_and_need_no_torch(
    make_model: Callable[..., Path], files: Path, call: Call
) -> None:
    model = make_model("MemoryAttention", slots=3)
    expected, error = call(translate, f"model={model}", "alignments=torch", stdin=TEXT)
    assert "engine" not in error
    names = ["align.onnx", "encode.int8.onnx", "encode.onnx", "search.int8.onnx", "search.onnx"]
    names += ["step.int8.onnx", "step.onnx", "weights.bin", "weights.int8.bin", "onnx"]
    assert [Path(line.split()[0]).name for line in call(export, f"model={model}").lines] == names
    arguments = [f"model={model}", "engine=onnx", "alignments=onnx"]
    assert run_without_torch("translate", arguments, TEXT).splitlines() == expected
    assert Path("onnx").read_text() == Path("torch").read_text()
    assert call(translate, f"model={model}", stdin=TEXT) == (expected, "engine: onnx\n")


@pytest.fixture
def run(exported: Path, tmp_path: Path) -> Path:
    """A copy of a model with its graphs."""
    return shutil.copytree(exported, tmp_path / "run")


def engine_of(place: Path) -> str:
    """Return the ONNX engine that ``engine=auto`` selects."""
    model = Translator.load(place).loaded_model
    assert isinstance(model, OnnxModel)
    return model.engine_name


@pytest.mark.thorough
def test_an_export_of_one_engine_makes_it_the_default(run: Path) -> None:
    expected = Translator.load(run, engine="onnx-int8").texts(["a cat", "the dog"])
    export([f"model={run}", "engine=onnx-int8"])
    names = ["about.json", "align.onnx", "encode.int8.onnx", "search.int8.onnx", "source.model"]
    names += ["step.int8.onnx", "weights.int8.bin"]
    assert sorted(file.name for file in (run / "onnx").iterdir()) == names
    assert engine_of(run) == "onnx-int8" and Translator.load(run).texts(["a cat", "the dog"]) == expected
    expect_error(
        "engine=onnx: .* has graphs of engine=onnx-int8 only; write both with nmt-exp",
        Translator.load,
        run,
        engine="onnx",
    )
    export([f"model={run}", "engine=onnx"])
    assert engine_of(run) == "onnx" and exported_engines(run) == ["onnx"]
    graphs = (run / "onnx").rename(run.parent / "graphs")
    expect_error(
        "graphs: nmt-export output= wrote it for engine=onnx only; name the folder of",
        Translator.load,
        graphs,
        engine="torch",
    )


@pytest.mark.thorough
def test_shortlist_is_learnt_from_a_corpus(make_model: Callable[..., Path], call: Call, tmp_path: Path) -> None:
    model = make_model("MemoryAttention", slots=3)
    trained = load_folder(model)
    pairs = [Pair("the dog sees a cat", "der hund sieht eine katze"), Pair("a red house", "ein rotes haus")]
    other = Tokenizer.train(["quite another text"], vocab_size=280)
    prepare({"train": pairs}, Filters(), SETTINGS, tmp_path / "other", tokenizers=(other, other))
    expect_error(
        "corpus=.*: its tokenizers differ from the model's",
        export,
        [f"model={model}", "shortlist=5", f"corpus={tmp_path}/other"],
    )
    corpus = tmp_path / "corpus"
    prepare({"train": pairs}, Filters(), SETTINGS, corpus, tokenizers=(trained.source, trained.target))
    words = [f"model={model}", "engine=onnx"]
    lines, _ = call(export, *words, "shortlist=5", f"corpus={corpus}")
    assert any("shortlist.npz" in line for line in lines)
    lines, error = call(translate, f"model={model}", "shortlist=true", stdin=TEXT)
    assert error == "engine: onnx\n" and len(lines) == 4
    listed = {piece for pair in pairs for piece in trained.target.pieces(trained.target.encode(pair.target))}
    translations = Translator.load(model, engine="onnx", shortlist=True).translate(["the dog", "a house"])
    assert {piece for translation in translations for piece in translation.tokens} <= {*listed, "</s>"}


def test_the_model_card_is_copied_into_a_deployment(deployment: Path) -> None:
    assert (deployment / "card.md").read_text() == "# A model\n"
