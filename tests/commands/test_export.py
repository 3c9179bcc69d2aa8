"""nmt-export: writes files that nmt-translate runs without torch."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from builders import leave_private_folder

import nmt.commands.export as export_command
from nmt.commands.export import export
from nmt.commands.translate import translate
from nmt.data.filters import Filters
from nmt.data.pair import Pair
from nmt.errors import UserError
from nmt.inference.model_folder import load_folder, save_folder
from nmt.inference.onnx.model import OnnxModel, exported_engines
from nmt.inference.translator import Translator
from nmt.text.piece_training import TokenizerSettings
from nmt.text.prepare import prepare
from nmt.text.tokenizer import Tokenizer

Pipe = Callable[[bytes], None]
TOKENIZER = TokenizerSettings(
    kind="bpe", vocab_size=300, joint=True, character_coverage=1.0, source_model=None, target_model=None
)
TEXT = b"the dog sees a cat\n\na red house\nthe cat\n"


@pytest.mark.thorough
def test_onnx_translations_equal_torch_and_need_no_torch(
    make_model: Callable[..., Path], pipe_in: Pipe, capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path
) -> None:
    model = make_model({"_target_": "nmt.attention.MemoryAttention", "slots": 3})
    pipe_in(TEXT)
    translate([f"model={model}", f"alignments={tmp_path}/torch"])
    expected, error = (stream.decode() for stream in capfdbinary.readouterr())
    assert "engine" not in error
    export([f"model={model}"])
    files = capfdbinary.readouterr().out.decode().splitlines()
    names = ["align.onnx", "encode.int8.onnx", "encode.onnx", "step.int8.onnx", "step.onnx", "onnx"]
    assert [Path(line.split()[0]).name for line in files] == names
    code = (
        "import sys; from nmt.commands.translate import translate; translate(sys.argv[1:]); "
        "sys.exit('torch' in sys.modules)"
    )
    arguments = [f"model={model}", "engine=onnx", f"alignments={tmp_path}/onnx"]
    process = subprocess.run([sys.executable, "-c", code, *arguments], input=TEXT, capture_output=True)
    assert (process.stdout.decode(), process.stderr, process.returncode) == (expected, b"", 0)
    assert (tmp_path / "onnx").read_text() == (tmp_path / "torch").read_text()
    pipe_in(TEXT)
    translate([f"model={model}"])
    out, error = (stream.decode() for stream in capfdbinary.readouterr())
    assert (out, error) == (expected, "engine: onnx\n")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["engine=onxx"], "engine=onxx: must be auto | torch | onnx | onnx-int8"),
        (["engine=onnx"], "engine=onnx: .* has no graphs; write them with nmt-export model="),
        (["engine=onnx", "memory=x"], "engine=onnx: stored memories need engine=torch"),
        (["engine=onnx", "device=cuda"], "device=cuda: engine=onnx runs on the CPU"),
    ],
)
def test_unusable_engine_is_rejected(model: Path, arguments: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message.replace("|", r"\|")):
        translate([f"model={model}", *arguments])


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory, model: Path) -> Path:
    """Folder of a model with its ONNX graphs."""
    run = shutil.copytree(model, tmp_path_factory.mktemp("exported") / "run")
    export([f"model={run}"])
    return run


def engine_of(place: Path) -> str:
    """Return the ONNX engine that ``engine=auto`` selects."""
    runtime = Translator.load(place).runtime
    assert isinstance(runtime, OnnxModel)
    return runtime.engine_name


@pytest.mark.thorough
def test_engine_auto_in_python_chooses_the_exact_graphs_without_printing(
    exported: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert engine_of(exported) == "onnx"
    assert capsys.readouterr() == ("", "")


@pytest.mark.thorough
def test_an_export_of_one_engine_makes_it_the_default(exported: Path, tmp_path: Path) -> None:
    run = shutil.copytree(exported, tmp_path / "run")
    expected = Translator.load(exported, engine="onnx-int8").texts(["a cat", "the dog"])
    export([f"model={run}", "engine=onnx-int8"])
    names = ["about.json", "align.onnx", "encode.int8.onnx", "source.model", "step.int8.onnx"]
    assert sorted(file.name for file in (run / "onnx").iterdir()) == names
    assert engine_of(run) == "onnx-int8" and Translator.load(run).texts(["a cat", "the dog"]) == expected
    with pytest.raises(UserError, match="engine=onnx: .* has graphs of engine=onnx-int8 only; write both with nmt-exp"):
        Translator.load(run, engine="onnx")
    export([f"model={run}", "engine=onnx"])
    assert engine_of(run) == "onnx" and exported_engines(run) == ["onnx"]


@pytest.mark.thorough
def test_graphs_of_a_model_replaced_during_the_export_are_not_used(
    exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = shutil.copytree(exported, tmp_path / "run")
    load = export_command.load_model

    def load_then_replace(*args: Any, **kwargs: Any) -> Translator:
        translator = load(*args, **kwargs)
        trained = load_folder(run)
        trained.model.embedding.weight.data += 1
        save_folder(run, trained)
        return translator

    monkeypatch.setattr(export_command, "load_model", load_then_replace)
    export([f"model={run}"])
    assert exported_engines(run) == []


def damage(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def shorten(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:99])


OTHERS = ["step.onnx", "align.onnx", "source.model", "about.json"]
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
    exported: Path,
    tmp_path: Path,
    pipe_in: Pipe,
    capfdbinary: pytest.CaptureFixture[bytes],
    name: str,
    change: Callable[[Path], None],
) -> None:
    run = shutil.copytree(exported, tmp_path / "run")
    pipe_in(TEXT)
    translate([f"model={run}", "engine=torch"])
    expected, _ = capfdbinary.readouterr()
    change(run / "onnx" / name)
    pipe_in(TEXT)
    with pytest.warns(UserWarning) as warnings:
        translate([f"model={run}"])
    (warning,) = warnings
    assert str(run / "onnx") in str(warning.message) and str(warning.message).endswith("; engine=auto uses torch")
    assert "nmt-export" in str(warning.message) and "\n" not in str(warning.message)
    assert capfdbinary.readouterr() == (expected, b"")
    with pytest.raises(UserError, match="onnx.*nmt-export"):
        Translator.load(run, engine="onnx").texts(["a cat"])


@pytest.mark.thorough
def test_engine_auto_does_not_warn_without_reason(exported: Path, tmp_path: Path) -> None:
    run = shutil.copytree(exported, tmp_path / "run")
    shutil.rmtree(run / "onnx")
    Translator.load(run, engine="auto")
    Translator.load(exported, engine="auto")


@pytest.mark.thorough
def test_a_shortlist_is_not_replaced_by_torch(exported: Path, tmp_path: Path) -> None:
    run = shutil.copytree(exported, tmp_path / "run")
    damage(run / "onnx" / "source.model")
    with pytest.raises(UserError, match="has no shortlist; write one with nmt-export"):
        Translator.load(run, engine="auto", shortlist=True)
    (run / "onnx" / "shortlist.npz").touch()
    with pytest.raises(UserError, match="source.model: cannot be read as a tokenizer"):
        Translator.load(run, engine="auto", shortlist=True)


@pytest.mark.thorough
def test_export_keeps_recent_temporary_folders_and_deletes_old_ones(exported: Path, tmp_path: Path) -> None:
    run = shutil.copytree(exported, tmp_path / "run")
    recent = leave_private_folder(run, 1, process=1)
    for number in (2, 3):
        leave_private_folder(run, number, process=1, age_s=90_000)
    export([f"model={run}"])
    assert [file.name for file in sorted(run.iterdir())] == [recent.name, "model.pt", "onnx"]
    assert (recent / "new" / "a").read_text() == "half"


@pytest.mark.thorough
def test_shortlist_is_learnt_from_a_corpus(
    make_model: Callable[..., Path], pipe_in: Pipe, capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path
) -> None:
    model = make_model({"_target_": "nmt.attention.MemoryAttention", "slots": 3})
    with pytest.raises(UserError, match="shortlist=5: .* has no train.arrow to learn from; set corpus=FOLDER"):
        export([f"model={model}", "shortlist=5"])
    trained = load_folder(model)
    pairs = [Pair("the dog sees a cat", "der hund sieht eine katze"), Pair("a red house", "ein rotes haus")]
    other = Tokenizer.train(["quite another text"], vocab_size=280)
    prepare({"train": pairs}, Filters(), TOKENIZER, tmp_path / "other", given=(other, other))
    with pytest.raises(UserError, match="corpus=.*: its tokenizers differ from the model's"):
        export([f"model={model}", "shortlist=5", f"corpus={tmp_path}/other"])
    corpus = tmp_path / "corpus"
    prepare({"train": pairs}, Filters(), TOKENIZER, corpus, given=(trained.source, trained.target))
    content = (corpus / "train.arrow").read_bytes()
    (corpus / "train.arrow").write_bytes(content.replace(b"hund", b"Hund"))
    with pytest.raises(UserError, match="train.arrow: cannot be read as a corpus .wrong checksum.; prepare the text"):
        export([f"model={model}", "shortlist=5", f"corpus={corpus}"])
    (corpus / "train.arrow").write_bytes(content)
    export([f"model={model}", "shortlist=5", f"corpus={corpus}", "engine=onnx"])
    assert b"shortlist.npz" in capfdbinary.readouterr().out
    pipe_in(TEXT)
    translate([f"model={model}", "shortlist=true"])
    out, error = (stream.decode() for stream in capfdbinary.readouterr())
    assert error == "engine: onnx\n" and out.count("\n") == 4
    listed = {piece for pair in pairs for piece in trained.target.pieces(trained.target.encode(pair.target))}
    translations = Translator.load(model, engine="onnx", shortlist=True).translate(["the dog", "a house"])
    assert {piece for translation in translations for piece in translation.tokens} <= {*listed, "</s>"}
    expected = [translation.text for translation in translations]
    export([f"model={model}", "engine=onnx"])  # without a shortlist: the last one is kept
    assert b"keeping the shortlist of the last export, shortlist=5" in capfdbinary.readouterr().err
    assert Translator.load(model, shortlist=True).texts(["the dog", "a house"]) == expected
    damage(model / "onnx" / "shortlist.npz")
    export([f"model={model}", "engine=onnx"])
    assert b"warning: the last shortlist is not kept (" in capfdbinary.readouterr().err
    assert not (model / "onnx" / "shortlist.npz").exists()


@pytest.mark.thorough
def test_a_shortlist_is_removed_on_request(exported: Path, tmp_path: Path) -> None:
    run = shutil.copytree(exported, tmp_path / "run")
    (run / "onnx" / "shortlist.npz").touch()
    export([f"model={run}", "engine=onnx", "shortlist=null"])
    assert not (run / "onnx" / "shortlist.npz").exists()
