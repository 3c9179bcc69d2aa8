"""nmt-encode: memories translate like their lines, and a failed run leaves no output."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest
from builders import expect_error
from commands.texts import TEXT, Call, Printed

from nmt.commands.encode import encode
from nmt.commands.translate import translate


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
    expect_error(message, translate, [f"model={model}", "memory=a"])


def test_memory_that_does_not_fit_into_ram_is_reported(
    model: Path, files: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode_text(call, model)
    monkeypatch.setattr("nmt.inference.memories.search_encoded", Mock(side_effect=MemoryError))
    lines, error = call(translate, f"model={model}", "memory=memories")
    assert lines == [""] * 4
    problem = "not enough RAM to translate this memory; its translation is empty"
    assert error.splitlines() == [f"warning: memories/{row:08d}.safetensors: {problem}" for row in (1, 3, 4)]
