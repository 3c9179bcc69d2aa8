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
