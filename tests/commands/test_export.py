"""nmt-export: writes files that nmt-translate runs without torch."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from builders import expect_error
from commands.processes import run_without_torch
from commands.texts import TEXT, Call
from small_text import SETTINGS

import nmt.commands.export as export_command
from nmt.commands.export import export, print_files
from nmt.commands.translate import translate
from nmt.data.filters import Filters
from nmt.data.pair import Pair
from nmt.errors import UserError
from nmt.inference.model_folder import load_folder, save_folder
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


def test_sizes_are_in_megabytes_of_a_million_bytes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "weights.bin").write_bytes(bytes(3_000_000))
    print_files(tmp_path)
    assert capsys.readouterr().out.splitlines() == [f"{tmp_path}/weights.bin  3.0 MB", f"{tmp_path}  3.0 MB in total"]


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
def test_engine_auto_in_python_chooses_the_exact_graphs_without_printing(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert engine_of(run) == "onnx"
    shutil.rmtree(run / "onnx")
    Translator.load(run, engine="auto")
    assert capsys.readouterr() == ("", "")


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
def test_graphs_of_a_model_replaced_during_the_export_are_not_used(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load = export_command.load_model

    def load_then_replace(*args: Any, **kwargs: Any) -> Translator:
        translator = load(*args, **kwargs)
        trained = load_folder(run)
        trained.model.embedding.weight.data += 1
        save_folder(run, trained)
        return translator

    monkeypatch.setattr(export_command, "load_model", load_then_replace)
    export([f"model={run}", "engine=onnx"])
    assert exported_engines(run) == []


def damage(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def shorten(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:99])


OTHERS = ["step.onnx", "search.onnx", "weights.bin", "align.onnx", "source.model", "about.json"]
CHANGES = [damage, shorten, Path.unlink]


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("encode.onnx", damage),
        *(pytest.param("encode.onnx", change, marks=pytest.mark.thorough) for change in (shorten, Path.unlink)),
        *(pytest.param(name, change, marks=pytest.mark.thorough) for name in OTHERS for change in CHANGES),
    ],
)
def test_engine_auto_uses_torch_if_an_exported_file_is_damaged(
    run: Path, call: Call, name: str, change: Callable[[Path], None]
) -> None:
    expected = call(translate, f"model={run}", "engine=torch", stdin=TEXT).lines
    change(run / "onnx" / name)
    with pytest.warns(UserWarning) as warnings:
        assert call(translate, f"model={run}", stdin=TEXT) == (expected, "")
    (warning,) = warnings
    assert str(run / "onnx") in str(warning.message) and str(warning.message).endswith("; engine=auto uses torch")
    assert "nmt-export" in str(warning.message) and "\n" not in str(warning.message)
    with pytest.raises(UserError, match="onnx.*nmt-export"):
        Translator.load(run, engine="onnx").texts(["a cat"])


@pytest.mark.thorough
def test_a_shortlist_is_not_replaced_by_torch(run: Path) -> None:
    damage(run / "onnx" / "source.model")
    expect_error("has no shortlist; write one with nmt-export", Translator.load, run, engine="auto", shortlist=True)
    (run / "onnx" / "shortlist.npz").touch()
    expect_error("source.model: cannot be read as a tokenizer", Translator.load, run, engine="auto", shortlist=True)


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
    content = (corpus / "train.arrow").read_bytes()
    (corpus / "train.arrow").write_bytes(content.replace(b"hund", b"Hund"))
    expect_error(
        "train.arrow: cannot be read as prepared text .wrong checksum.; prepare the text",
        export,
        [f"model={model}", "shortlist=5", f"corpus={corpus}"],
    )
    (corpus / "train.arrow").write_bytes(content)
    words = [f"model={model}", "engine=onnx"]
    lines, _ = call(export, *words, "shortlist=5", f"corpus={corpus}")
    assert any("shortlist.npz" in line for line in lines)
    lines, error = call(translate, f"model={model}", "shortlist=true", stdin=TEXT)
    assert error == "engine: onnx\n" and len(lines) == 4
    listed = {piece for pair in pairs for piece in trained.target.pieces(trained.target.encode(pair.target))}
    translations = Translator.load(model, engine="onnx", shortlist=True).translate(["the dog", "a house"])
    assert {piece for translation in translations for piece in translation.tokens} <= {*listed, "</s>"}
    expected = [translation.text for translation in translations]
    # Without shortlist=, the last one is kept.
    assert "keeping the shortlist of the last export, shortlist=5" in call(export, *words).error
    assert Translator.load(model, shortlist=True).texts(["the dog", "a house"]) == expected
    damage(model / "onnx" / "shortlist.npz")
    assert "warning: the last shortlist is not kept (" in call(export, *words).error
    assert not (model / "onnx" / "shortlist.npz").exists()


def test_the_model_card_is_copied_into_a_deployment(deployment: Path) -> None:
    assert (deployment / "card.md").read_text() == "# A model\n"
