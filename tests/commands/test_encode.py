"""nmt-encode: memories translate like their lines, and a failed run leaves no output."""

from __future__ import annotations

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


@pytest.mark.attack("exchanged memories")
@pytest.mark.parametrize(
    ("replaced", "message"),
    [
        (
            {1: "a 3", 3: "a 1"},
            "00000001.safetensors: holds line 3, not line 1; rename the files back, or encode again",
        ),
        ({1: "a 2", 2: "a 3", 3: "a 4"}, "00000001.safetensors: holds line 2, not line 1"),
        ({4: "a 2"}, "00000004.safetensors: holds line 2, not line 4"),  # a blank line
        ({3: "b 3"}, "00000003.safetensors: was not encoded after 00000002.safetensors, so"),
        ({4: "b 4"}, "00000004.safetensors: was not encoded after 00000003.safetensors, so"),
    ],
)
def test_exchanged_memories_are_refused(
    model: Path, files: Path, call: Call, replaced: dict[int, str], message: str
) -> None:
    """Replace lines of the text ``a`` by others of it, or of a text ``b`` that begins otherwise."""
    encode_text(call, model, output="a")
    encode_text(call, model, output="b", text=b"a cat\n" + TEXT)
    contents = {}
    for line, origin in replaced.items():
        folder, number = origin.split()
        contents[f"a/{line:08d}.safetensors"] = Path(folder, f"{int(number):08d}.safetensors").read_bytes()
    for name, content in contents.items():
        Path(name).write_bytes(content)
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
