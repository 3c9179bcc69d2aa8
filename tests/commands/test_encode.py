"""nmt-encode: memories translate like their lines, and a failed run leaves no output."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from nmt.commands.encode import encode
from nmt.commands.translate import translate
from nmt.errors import UserError
from nmt.inference.torch_engine import Source
from nmt.inference.translator import Translator

Pipe = Callable[[bytes], None]
Reader = Callable[[], list[str]]
TEXT = b"the dog sees a cat\n\na red house\nthe cat\n"


def test_memories_translate_like_their_lines(model: Path, tmp_path: Path, pipe_in: Pipe, read_output: Reader) -> None:
    pipe_in(TEXT)
    translate([f"model={model}", f"alignments={tmp_path}/direct"])
    expected = read_output()
    pipe_in(TEXT)
    encode([f"model={model}", f"output={tmp_path}/memories", "trace=true"])
    assert read_output() == []
    files = sorted(tmp_path.glob("memories/*"))
    assert [file.name for file in files] == [*(f"{number:08d}.safetensors" for number in range(1, 5)), "count.txt"]
    translate([f"model={model}", f"memory={tmp_path}/memories", f"alignments={tmp_path}/stored"])
    assert read_output() == expected
    assert (tmp_path / "stored").read_text() == (tmp_path / "direct").read_text()
    translate([f"model={model}", f"memory={files[2]}", "scores=true"])
    assert [line.partition("\t")[2] for line in read_output()] == expected[2:3]


def exchange(folder: Path, other: Path) -> None:
    first, second = folder / "00000001.safetensors", folder / "00000003.safetensors"
    content = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(content)


def take_from_other_text(folder: Path, other: Path) -> None:
    shutil.copy(other / "00000003.safetensors", folder)


def take_last_from_other_text(folder: Path, other: Path) -> None:
    shutil.copy(other / "00000004.safetensors", folder)


def move_up(folder: Path, other: Path) -> None:
    """Delete the first line, as a file manager that renames the others would."""
    for number in (2, 3, 4):
        shutil.move(folder / f"{number:08d}.safetensors", folder / f"{number - 1:08d}.safetensors")
    (folder / "count.txt").write_text("3\n")


def take_blank(folder: Path, other: Path) -> None:
    shutil.copy(folder / "00000002.safetensors", folder / "00000004.safetensors")


@pytest.mark.attack("exchanged memories")
@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (exchange, "00000001.safetensors: holds line 3, not line 1; rename the files back, or encode again"),
        (move_up, "00000001.safetensors: holds line 2, not line 1"),
        (take_blank, "00000004.safetensors: holds line 2, not line 4"),
        (take_from_other_text, "00000003.safetensors: was not encoded after 00000002.safetensors, so"),
        (take_last_from_other_text, "00000004.safetensors: was not encoded after 00000003.safetensors, so"),
    ],
)
def test_exchanged_memories_are_refused(
    model: Path, tmp_path: Path, pipe_in: Pipe, damage: Callable[[Path, Path], None], message: str
) -> None:
    for name, text in (("a", TEXT), ("b", b"a cat\n" + TEXT)):
        pipe_in(text)
        encode([f"model={model}", f"output={tmp_path}/{name}"])
    damage(tmp_path / "a", tmp_path / "b")
    with pytest.raises(UserError, match=message):
        translate([f"model={model}", f"memory={tmp_path}/a"])


def test_line_encoded_in_parts_translates_like_a_line_encoded_at_once(
    make_model: Callable[..., Path], tmp_path: Path, pipe_in: Pipe, read_output: Reader
) -> None:
    model = make_model({"_target_": "nmt.attention.CovarianceAttention"}, bidirectional=False)
    for folder, words in {"parts": ["piece_length=2"], "at_once": []}.items():
        pipe_in(TEXT)
        encode([f"model={model}", f"output={tmp_path}/{folder}", *words])
        translate([f"model={model}", f"memory={tmp_path}/{folder}"])
    lines = read_output()
    assert lines[:4] == lines[4:] and all(lines[row] for row in (0, 2, 3))


def test_memory_that_does_not_fit_into_ram_is_reported(
    model: Path,
    tmp_path: Path,
    pipe_in: Pipe,
    capfdbinary: pytest.CaptureFixture[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pipe_in(TEXT)
    encode([f"model={model}", f"output={tmp_path}/memories"])

    def search(engine: object, source: Source, *rest: object) -> None:
        raise MemoryError

    monkeypatch.setattr("nmt.inference.memories.search_encoded", search)
    capfdbinary.readouterr()
    translate([f"model={model}", f"memory={tmp_path}/memories"])
    out, error = (stream.decode() for stream in capfdbinary.readouterr())
    assert out == "\n" * 4
    assert error.splitlines() == [
        f"warning: {tmp_path}/memories/{row:08d}.safetensors: not enough RAM to translate this memory; "
        "its translation is empty"
        for row in (1, 3, 4)
    ]


def test_memories_can_be_read_by_the_same_users_as_other_files(model: Path, tmp_path: Path, pipe_in: Pipe) -> None:
    pipe_in(TEXT)
    before = os.umask(0o022)
    try:
        encode([f"model={model}", f"output={tmp_path}/memories"])
    finally:
        os.umask(before)
    assert {file.stat().st_mode & 0o777 for file in (tmp_path / "memories").iterdir()} == {0o644}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["piece_length=2"], "piece_length: this model's encoder, nmt.model.encoder.LSTMEncoder, needs"),
        (["piece_length=0"], "piece_length=0: must be at least 1"),
        (["trac=true"], "trac: no such key; did you mean trace?"),
        (["input=/nowhere/in.txt"], "/nowhere/in.txt: No such file"),
    ],
)
def test_failure_leaves_no_files(model: Path, tmp_path: Path, words: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        encode([f"model={model}", f"output={tmp_path}/memories", *words])
    assert list(tmp_path.iterdir()) == []


def test_existing_folder_is_not_overwritten(model: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="already exists; choose another folder"):
        encode([f"model={model}", f"output={tmp_path}"])


def test_input_and_memory_together_are_rejected(model: Path) -> None:
    with pytest.raises(UserError, match="memory=here: input=there is given too; give only one of them"):
        translate([f"model={model}", "memory=here", "input=there"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["output=./x"], "memory=x: same file as output=./x; choose two different files"),
        (["alignments=./x"], "alignments=./x: same file as memory=x"),
    ],
)
def test_memory_is_not_overwritten(model: Path, words: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        translate([f"model={model}", "memory=x", *words])


@pytest.mark.parametrize(("place", "message"), [("nowhere", "no such file"), (".", "has no count.txt")])
def test_missing_memories_are_reported(model: Path, tmp_path: Path, place: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        translate([f"model={model}", f"memory={tmp_path / place}"])


@pytest.mark.parametrize("number", [2, 4])
def test_lost_memory_file_is_reported(model: Path, tmp_path: Path, pipe_in: Pipe, number: int) -> None:
    pipe_in(TEXT)
    encode([f"model={model}", f"output={tmp_path}/memories"])
    (tmp_path / "memories" / f"{number:08d}.safetensors").unlink()
    with pytest.raises(
        UserError, match=f"memories: 1 of 4 files missing, the first is {number:08d}.safetensors; encode"
    ):
        translate([f"model={model}", f"memory={tmp_path}/memories"])


@pytest.mark.parametrize("settings", [[], ["input=empty"]], ids=["pipe", "file"])
def test_empty_input_gives_no_memories_and_no_translations(
    settings: list[str],
    model: Path,
    tmp_path: Path,
    pipe_in: Pipe,
    read_output: Reader,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").touch()
    pipe_in(b"")
    encode([f"model={model}", f"output={tmp_path}/memories", *settings])
    translate([f"model={model}", f"memory={tmp_path}/memories"])
    assert read_output() == []


def test_alignments_need_memories_with_a_trace(model: Path, tmp_path: Path, pipe_in: Pipe) -> None:
    pipe_in(TEXT)
    encode([f"model={model}", f"output={tmp_path}/memories"])
    with pytest.raises(UserError, match="encode with trace=true"):
        translate([f"model={model}", f"memory={tmp_path}/memories", f"alignments={tmp_path}/links"])
    assert not (tmp_path / "links").exists()


def test_line_too_long_for_the_attention_gets_an_empty_memory(
    short_model: Path, tmp_path: Path, pipe_in: Pipe, capfdbinary: pytest.CaptureFixture[bytes], read_output: Reader
) -> None:
    pipe_in(b"a cat\n" + b"dog " * 20 + b"\na cat\n")
    encode([f"model={short_model}", f"output={tmp_path}/memories"])
    assert "warning: <stdin>:2: a source of " in capfdbinary.readouterr().err.decode()
    translate([f"model={short_model}", f"memory={tmp_path}/memories"])
    lines = read_output()
    assert lines[1] == "" and lines[0] == lines[2] != ""


def test_line_that_exhausts_memory_gets_an_empty_memory(
    model: Path, tmp_path: Path, pipe_in: Pipe, capfdbinary: pytest.CaptureFixture[bytes], read_output: Reader,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    original = Translator.encode

    def encode_short_lines(self: Translator, line: str) -> list[int]:
        if len(line) > 50:
            torch.empty(10**15)  # more than any machine has: raises torch's own out-of-memory error
        return original(self, line)

    monkeypatch.setattr(Translator, "encode", encode_short_lines)
    pipe_in(b"a cat\n" + b"dog " * 20 + b"\na cat\n")
    encode([f"model={model}", f"output={tmp_path}/memories"])
    warning, _ = capfdbinary.readouterr().err.decode().splitlines()
    assert warning == "warning: <stdin>:2: not enough memory for this line of 20 words; its memory is empty"
    translate([f"model={model}", f"memory={tmp_path}/memories"])
    lines = read_output()
    assert lines[1] == "" and lines[0] == lines[2] != ""
