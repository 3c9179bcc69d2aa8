"""nmt-encode writes what nmt-translate memory=… reads, and nothing half."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from nmt.commands.encode import encode
from nmt.commands.translate import translate
from nmt.errors import UserError
from nmt.inference.translator import Translator

Pipe = Callable[[bytes], None]
TEXT = b"the dog sees a cat\n\na red house\nthe cat\n"


def lines_of(capfdbinary: pytest.CaptureFixture[bytes]) -> list[str]:
    return capfdbinary.readouterr().out.decode().split("\n")[:-1]


def test_memories_are_translated_as_their_lines_are(
    model: Path, tmp_path: Path, pipe_in: Pipe, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    pipe_in(TEXT)
    translate([f"model={model}", f"alignments={tmp_path}/direct"])
    expected = lines_of(capfdbinary)
    pipe_in(TEXT)
    encode([f"model={model}", f"output={tmp_path}/memories", "trace=true"])
    assert lines_of(capfdbinary) == []
    files = sorted(tmp_path.glob("memories/*"))
    assert [file.name for file in files] == [*(f"{number:08d}.safetensors" for number in range(1, 5)), "count.txt"]
    translate([f"model={model}", f"memory={tmp_path}/memories", f"alignments={tmp_path}/stored"])
    assert lines_of(capfdbinary) == expected
    assert (tmp_path / "stored").read_text() == (tmp_path / "direct").read_text()
    translate([f"model={model}", f"memory={files[2]}", "scores=true"])
    assert [line.partition("\t")[2] for line in lines_of(capfdbinary)] == expected[2:3]


def test_a_line_in_parts(
    model_of: Callable[..., Path], tmp_path: Path, pipe_in: Pipe, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    model = model_of({"_target_": "nmt.attention.CovarianceAttention"}, bidirectional=False)
    for folder, words in {"parts": ["piece_length=2"], "whole": []}.items():
        pipe_in(TEXT)
        encode([f"model={model}", f"output={tmp_path}/{folder}", *words])
        translate([f"model={model}", f"memory={tmp_path}/{folder}"])
    found = lines_of(capfdbinary)
    assert found[:4] == found[4:] and all(found[row] for row in (0, 2, 3))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["piece_length=2"], "piece_length: this model's encoder reads in both directions"),
        (["piece_length=0"], "piece_length=0: must be at least 1"),
        (["trac=true"], "trac: no such key; did you mean trace?"),
        (["input=/nowhere/in.txt"], "/nowhere/in.txt: No such file"),
    ],
)
def test_a_failure_leaves_nothing_behind(model: Path, tmp_path: Path, words: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        encode([f"model={model}", f"output={tmp_path}/memories", *words])
    assert list(tmp_path.iterdir()) == []


def test_no_folder_is_overwritten(model: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="already exists; choose another folder"):
        encode([f"model={model}", f"output={tmp_path}"])


def test_text_and_memories_at_once_are_refused(model: Path) -> None:
    with pytest.raises(UserError, match="memory=here: is what to translate, and so is input=there; give one"):
        translate([f"model={model}", "memory=here", "input=there"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["output=./x"], "memory=x: is the output as well; give each a file of its own"),
        (["alignments=./x"], "alignments=./x: is the memory as well"),
    ],
)
def test_a_memory_is_not_written_over(model: Path, words: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        translate([f"model={model}", "memory=x", *words])


@pytest.mark.parametrize(("place", "message"), [("nowhere", "no such file"), (".", "no count.txt there")])
def test_memories_that_are_not_there_are_named(model: Path, tmp_path: Path, place: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        translate([f"model={model}", f"memory={tmp_path / place}"])


@pytest.mark.parametrize("number", [2, 4])
def test_a_memory_that_was_lost_is_missed(model: Path, tmp_path: Path, pipe_in: Pipe, number: int) -> None:
    pipe_in(TEXT)
    encode([f"model={model}", f"output={tmp_path}/memories"])
    (tmp_path / "memories" / f"{number:08d}.safetensors").unlink()
    with pytest.raises(UserError, match=f"memories: 1 of 4 are lost, the first is {number:08d}.safetensors; encode"):
        translate([f"model={model}", f"memory={tmp_path}/memories"])


def test_no_lines_no_memories_no_translations(
    model: Path, tmp_path: Path, pipe_in: Pipe, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    pipe_in(b"")
    encode([f"model={model}", f"output={tmp_path}/memories"])
    translate([f"model={model}", f"memory={tmp_path}/memories"])
    assert lines_of(capfdbinary) == []


def test_memories_without_a_trace_are_not_aligned(model: Path, tmp_path: Path, pipe_in: Pipe) -> None:
    pipe_in(TEXT)
    encode([f"model={model}", f"output={tmp_path}/memories"])
    with pytest.raises(UserError, match="encode with trace=true"):
        translate([f"model={model}", f"memory={tmp_path}/memories", f"alignments={tmp_path}/links"])
    assert not (tmp_path / "links").exists()


def test_a_line_longer_than_the_attention_holds_leaves_an_empty_memory(
    model_of: Callable[..., Path], tmp_path: Path, pipe_in: Pipe, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    model = model_of({"_target_": "nmt.attention.LowRankAttention", "slots": 3})
    pipe_in(b"a cat\n" + b"dog " * 20 + b"\na cat\n")
    encode([f"model={model}", f"output={tmp_path}/memories"])
    assert "warning: <stdin>:2: a source of " in capfdbinary.readouterr().err.decode()
    translate([f"model={model}", f"memory={tmp_path}/memories"])
    found = lines_of(capfdbinary)
    assert found[1] == "" and found[0] == found[2] != ""


def test_a_line_that_does_not_fit_into_memory_leaves_an_empty_memory(
    model: Path, tmp_path: Path, pipe_in: Pipe, capfdbinary: pytest.CaptureFixture[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    whole = Translator.encode

    def small(self: Translator, line: str) -> list[int]:
        if len(line) > 50:
            torch.empty(10**15)  # more than any machine has: torch's own error
        return whole(self, line)

    monkeypatch.setattr(Translator, "encode", small)
    pipe_in(b"a cat\n" + b"dog " * 20 + b"\na cat\n")
    encode([f"model={model}", f"output={tmp_path}/memories"])
    warning, _ = capfdbinary.readouterr().err.decode().splitlines()
    assert warning == "warning: <stdin>:2: not enough memory for this line of 20 words; its memory is empty"
    translate([f"model={model}", f"memory={tmp_path}/memories"])
    found = lines_of(capfdbinary)
    assert found[1] == "" and found[0] == found[2] != ""
