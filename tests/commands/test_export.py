"""nmt-export writes what nmt-translate runs without torch."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nmt.commands.export import export
from nmt.commands.translate import translate
from nmt.errors import UserError
from nmt.inference.model_folder import load_folder, save_folder
from nmt.inference.onnx.folder import OnnxModel, there
from nmt.inference.translator import Translator
from nmt.text.corpus import write_corpus
from nmt.text.pair import Pair
from nmt.text.tokenizer import Tokenizer

Pipe = Callable[[bytes], None]
TEXT = b"the dog sees a cat\n\na red house\nthe cat\n"


def test_translations_are_the_same_and_need_no_torch(
    model_of: Callable[..., Path], pipe_in: Pipe, capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path
) -> None:
    model = model_of({"_target_": "nmt.attention.MemoryAttention", "slots": 3})
    pipe_in(TEXT)
    translate([f"model={model}", f"alignments={tmp_path}/torch"])
    expected, error = (stream.decode() for stream in capfdbinary.readouterr())
    assert "engine" not in error
    export([f"model={model}"])
    written = capfdbinary.readouterr().out.decode().splitlines()
    names = ["align.onnx", "encode.int8.onnx", "encode.onnx", "step.int8.onnx", "step.onnx"]
    assert [Path(line.split()[0]).name for line in written] == names
    code = (
        "import sys; from nmt.commands.translate import translate; translate(sys.argv[1:]); "
        "sys.exit('torch' in sys.modules)"
    )
    words = [f"model={model}", "engine=onnx", f"alignments={tmp_path}/onnx"]
    done = subprocess.run([sys.executable, "-c", code, *words], input=TEXT, capture_output=True)
    assert (done.stdout.decode(), done.stderr, done.returncode) == (expected, b"", 0)
    assert (tmp_path / "onnx").read_text() == (tmp_path / "torch").read_text()
    pipe_in(TEXT)
    translate([f"model={model}"])
    out, error = (stream.decode() for stream in capfdbinary.readouterr())
    assert error == "engine: onnx-int8\n" and out.count("\n") == 4


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["engine=onxx"], "engine=onxx: must be auto | torch | onnx | onnx-int8"),
        (["engine=onnx"], "engine=onnx: no graphs are in .*; write them with nmt-export model="),
        (["engine=onnx", "memory=x"], "engine=onnx: memories are read by torch only"),
        (["engine=onnx", "device=cuda"], "device=cuda: engine=onnx runs on the CPU"),
    ],
)
def test_an_engine_that_cannot_be_is_named(model: Path, words: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message.replace("|", r"\|")):
        translate([f"model={model}", *words])


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory, model: Path) -> Path:
    run = shutil.copytree(model, tmp_path_factory.mktemp("exported") / "run")
    export([f"model={run}"])
    return run


def test_the_fastest_engine_is_chosen_for_programs_too(exported: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runtime = Translator.load(exported, engine="auto").runtime
    assert isinstance(runtime, OnnxModel) and runtime.precision == "onnx-int8"
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("name", "what"),
    [("encode.onnx", "a graph"), ("step.onnx", "a graph"), ("align.onnx", "a graph"), ("source.model", "a tokenizer")],
)
def test_a_few_changed_bytes_of_a_graph_are_noticed(exported: Path, tmp_path: Path, name: str, what: str) -> None:
    run = shutil.copytree(exported, tmp_path / "run")
    file, message = run / "onnx" / name, f"{name}: cannot be read as {what} \\({{}}\\); write it again with nmt-export"
    content = bytearray(file.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 16] = bytes(16)
    for damaged in (content, content[:middle], b""):
        file.write_bytes(damaged)
        with pytest.raises(UserError, match=message.format("wrong checksum")):
            Translator.load(run, engine="onnx").texts(["a cat"])
    if name != "step.onnx":  # without that one, there are no graphs at all
        file.unlink()
        with pytest.raises(UserError, match=message.format("No such file or directory")):
            Translator.load(run, engine="onnx").texts(["a cat"])


def test_graphs_without_checksums_are_of_another_version(exported: Path, tmp_path: Path) -> None:
    run = shutil.copytree(exported, tmp_path / "run")
    file = run / "onnx" / "about.json"
    about = json.loads(file.read_text())
    del about["checksums"]
    file.write_text(json.dumps({**about, "format": 2}))
    with pytest.raises(UserError, match="engine=onnx: graphs of another model, or of another version, are in "):
        Translator.load(run, engine="onnx")
    file.write_text(json.dumps(about))
    with pytest.raises(UserError, match="about.json: not what nmt-export writes; write it again"):
        Translator.load(run, engine="onnx")


def test_a_model_written_during_the_export_is_another_one(
    exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = shutil.copytree(exported, tmp_path / "run")
    load = Translator.load

    def late(*given: Any, **more: Any) -> Translator:
        found = load(*given, **more)
        trained = load_folder(run)
        trained.model.embedding.weight.data += 1
        save_folder(run, trained)
        return found

    monkeypatch.setattr(Translator, "load", late)
    export([f"model={run}"])
    assert there(run) == []


def test_exports_at_once_leave_each_other_alone_and_clear_away_what_was_abandoned(
    exported: Path, tmp_path: Path
) -> None:
    run = shutil.copytree(exported, tmp_path / "run")
    other, old, older = (run / f".onnx.{name}partial" for name in ("1.", "2.", ""))
    for folder in (other, old, older):
        folder.mkdir()
        (folder / "step.onnx").write_bytes(b"half")
    for folder in (old, older):
        os.utime(folder, (time.time() - 90_000,) * 2)
    export([f"model={run}"])
    assert [file.name for file in sorted(run.iterdir())] == [other.name, "model.pt", "onnx"]
    assert (other / "step.onnx").read_bytes() == b"half"


def test_a_shortlist_is_learnt_from_a_corpus(
    model_of: Callable[..., Path], pipe_in: Pipe, capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path
) -> None:
    model = model_of({"_target_": "nmt.attention.MemoryAttention", "slots": 3})  # its folder is written into
    with pytest.raises(UserError, match="shortlist=5: no train.arrow in .*; name a corpus with corpus=FOLDER"):
        export([f"model={model}", "shortlist=5"])
    trained = load_folder(model)
    pairs = [Pair("the dog sees a cat", "der hund sieht eine katze"), Pair("a red house", "ein rotes haus")]
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    write_corpus(corpus / "train.arrow", pairs, trained.source, trained.target, max_length=None, max_ratio=None)
    (corpus / "settings.json").write_text('{"lowercase": false}')
    other = Tokenizer.train(["quite another text"], vocab_size=280)
    for name, one in (("source", other), ("target", other)):
        (corpus / f"{name}.model").write_bytes(one.to_bytes())
    with pytest.raises(UserError, match="corpus=.*: cut into other pieces than the model's"):
        export([f"model={model}", "shortlist=5", f"corpus={corpus}"])
    for name, one in (("source", trained.source), ("target", trained.target)):
        (corpus / f"{name}.model").write_bytes(one.to_bytes())
    export([f"model={model}", "shortlist=5", f"corpus={corpus}"])
    assert b"shortlist.npz" in capfdbinary.readouterr().out
    pipe_in(TEXT)
    translate([f"model={model}", "shortlist=true"])
    out, error = (stream.decode() for stream in capfdbinary.readouterr())
    assert error == "engine: onnx-int8\n" and out.count("\n") == 4
    seen = {piece for pair in pairs for piece in trained.target.pieces(trained.target.encode(pair.target))}
    translator = Translator.load(model, engine="onnx", shortlist=True)
    assert {piece for one in translator.translate(["the dog", "a house"]) for piece in one.tokens} <= {*seen, "</s>"}
