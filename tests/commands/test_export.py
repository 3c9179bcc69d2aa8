"""nmt-export writes what nmt-translate runs without torch."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from nmt.commands.export import export
from nmt.commands.translate import translate
from nmt.errors import UserError
from nmt.inference.folder import load_folder
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
