"""nmt-encode: memories translate like their lines, and a failed run leaves no output."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest
from commands.texts import TEXT, Call, Printed

from nmt.commands.encode import encode
from nmt.commands.translate import translate
from nmt.errors import UserError


def encode_text(call: Call, model: Path, *words: str, text: bytes = TEXT, output: str = "memories") -> Printed:
    return call(encode, f"model={model}", f"output={output}", *words, stdin=text)


def test_memories_translate_like_their_lines(model: Path, files: Path, call: Call) -> None:
    expected = call(translate, f"model={model}", "alignments=direct", stdin=TEXT).lines
    assert encode_text(call, model, "trace=true").lines == []
    memories = sorted(Path("memories").iterdir())
    assert [file.name for file in memories] == [*(f"{number:08d}.safetensors" for number in range(1, 5)), "count.txt"]
    assert call(translate, f"model={model}", "memory=memories", "alignments=stored").lines == expected
    assert Path("stored").read_text() == Path("direct").read_text()
    scored = call(translate, f"model={model}", f"memory={memories[2]}", "scores=true").lines
    assert [line.partition("\t")[2] for line in scored] == expected[2:3]


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
    model: Path, files: Path, call: Call, damage: Callable[[Path, Path], None], message: str
) -> None:
    encode_text(call, model, output="a")
    encode_text(call, model, output="b", text=b"a cat\n" + TEXT)
    damage(Path("a"), Path("b"))
    with pytest.raises(UserError, match=message):
        translate([f"model={model}", "memory=a"])


def test_line_encoded_in_parts_translates_like_a_line_encoded_at_once(
    make_model: Callable[..., Path], files: Path, call: Call
) -> None:
    model = make_model("CovarianceAttention", bidirectional=False)
    encode_text(call, model)
    encode_text(call, model, "piece_length=2", output="parts")
    parts, at_once = (call(translate, f"model={model}", f"memory={name}").lines for name in ("parts", "memories"))
    assert parts == at_once and all(parts[row] for row in (0, 2, 3))


def test_memory_that_does_not_fit_into_ram_is_reported(
    model: Path, files: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode_text(call, model)
    monkeypatch.setattr("nmt.inference.memories.search_encoded", Mock(side_effect=MemoryError))
    lines, error = call(translate, f"model={model}", "memory=memories")
    assert lines == [""] * 4
    problem = "not enough RAM to translate this memory; its translation is empty"
    assert error.splitlines() == [f"warning: memories/{row:08d}.safetensors: {problem}" for row in (1, 3, 4)]


def test_memories_can_be_read_by_the_same_users_as_other_files(model: Path, files: Path, call: Call) -> None:
    before = os.umask(0o022)
    try:
        encode_text(call, model)
    finally:
        os.umask(before)
    assert {file.stat().st_mode & 0o777 for file in Path("memories").iterdir()} == {0o644}


@pytest.mark.parametrize("settings", [[], ["input=empty"]], ids=["pipe", "file"])
def test_empty_input_gives_no_memories_and_no_translations(
    settings: list[str], model: Path, files: Path, call: Call
) -> None:
    Path("empty").touch()
    encode_text(call, model, *settings, text=b"")
    assert call(translate, f"model={model}", "memory=memories").lines == []


def test_alignments_need_memories_with_a_trace(model: Path, files: Path, call: Call) -> None:
    encode_text(call, model)
    with pytest.raises(UserError, match="encode with trace=true"):
        translate([f"model={model}", "memory=memories", "alignments=links"])
    assert not Path("links").exists()


LONG_LINE = b"a cat\n" + b"dog " * 20 + b"\na cat\n"


def assert_only_the_second_is_empty(lines: list[str]) -> None:
    assert lines[1] == "" and lines[0] == lines[2] != ""


def test_line_too_long_for_the_attention_gets_an_empty_memory(short_model: Path, files: Path, call: Call) -> None:
    error = encode_text(call, short_model, text=LONG_LINE).error
    assert "warning: <stdin>:2: a source of " in error
    assert_only_the_second_is_empty(call(translate, f"model={short_model}", "memory=memories").lines)
