"""nmt-export: writes files that nmt-translate runs without torch."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from builders import expect_error, refusal
from commands.processes import run_without_torch
from commands.texts import TEXT, Call
from small_text import SETTINGS

from nmt.commands.export import export
from nmt.commands.translate import translate
from nmt.data.filters import Filters
from nmt.data.pair import Pair
from nmt.inference.model_folder import load_folder
from nmt.inference.onnx.model import exported_engines
from nmt.inference.translator import Translator
from nmt.text.prepare import prepare
from nmt.text.tokenizer import Tokenizer


@pytest.mark.thorough
def test_onnx_translations_equal_torch_and_need_no_torch(exported: Path, files: Path, call: Call) -> None:
    words = [f"model={exported}"]
    expected, error = call(translate, *words, "alignments=torch", "engine=torch", stdin=TEXT)
    assert "engine" not in error
    assert run_without_torch("translate", [*words, "engine=onnx", "alignments=onnx"], TEXT).splitlines() == expected
    assert Path("onnx").read_text() == Path("torch").read_text()
    assert call(translate, *words, stdin=TEXT) == (expected, "engine: onnx\n")


@pytest.mark.thorough
def test_an_export_of_one_engine_makes_it_the_default(exported: Path, tmp_path: Path, call: Call) -> None:
    run = shutil.copytree(exported, tmp_path / "run")
    expected = Translator.load(run, engine="onnx-int8").texts(["a cat", "the dog"])
    printed = {Path(line.split()[0]).name for line in call(export, f"model={run}", "engine=onnx-int8").lines}
    names = {"align.onnx", "encode.int8.onnx", "search.int8.onnx", "step.int8.onnx", "weights.int8.bin"}
    assert {file.name for file in (run / "onnx").iterdir()} - {"about.json", "source.model"} == names
    assert printed == {*names, "onnx"}
    assert exported_engines(run) == ["onnx-int8"] and Translator.load(run).texts(["a cat", "the dog"]) == expected
    expect_error("engine", Translator.load, run, engine="onnx")
    export([f"model={run}", "engine=onnx"])
    assert exported_engines(run) == ["onnx"]
    refusal(Translator.load, (run / "onnx").rename(tmp_path / "graphs"), engine="torch")


@pytest.mark.thorough
def test_shortlist_is_learnt_from_a_corpus(make_model: Callable[..., Path], call: Call, tmp_path: Path) -> None:
    model = make_model("MemoryAttention", slots=3)
    trained = load_folder(model)
    pairs = [Pair("the dog sees a cat", "der hund sieht eine katze"), Pair("a red house", "ein rotes haus")]
    other = Tokenizer.train(["quite another text"], vocab_size=280)
    prepare({"train": pairs}, Filters(), SETTINGS, tmp_path / "other", tokenizers=(other, other))
    expect_error("corpus", export, [f"model={model}", "shortlist=5", f"corpus={tmp_path}/other"])
    corpus = tmp_path / "corpus"
    prepare({"train": pairs}, Filters(), SETTINGS, corpus, tokenizers=(trained.source, trained.target))
    words = [f"model={model}", "engine=onnx"]
    export([*words, "shortlist=5", f"corpus={corpus}"])
    lines, error = call(translate, f"model={model}", "shortlist=true", stdin=TEXT)
    assert error == "engine: onnx\n" and len(lines) == 4
    listed = {piece for pair in pairs for piece in trained.target.pieces(trained.target.encode(pair.target))}
    translations = Translator.load(model, engine="onnx", shortlist=True).translate(["the dog", "a house"])
    assert {piece for translation in translations for piece in translation.tokens} <= {*listed, "</s>"}
