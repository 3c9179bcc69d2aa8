"""Empty files, and lines that a model cannot read: every command goes on, with one output line per line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from builders import write_lines
from commands.texts import Call

from nmt.commands.align import align
from nmt.commands.evaluate import evaluate
from nmt.commands.translate import translate


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (align, "src=empty tgt=empty"),
        (align, ""),
        (translate, "input=empty output=out alignments=links"),
        (translate, ""),
    ],
)
def test_empty_input_gives_empty_output(command: Any, words: str, model: Path, files: Path, call: Call) -> None:
    Path("empty").touch()
    assert call(command, f"model={model}", *words.split()).lines == []
    for name in ("out", "links") if "out=" in words else ():
        assert Path(name).read_bytes() == b""


def test_a_source_too_long_for_the_attention_is_named(short_model: Path, files: Path, call: Call) -> None:
    """A model for up to 20 pieces. The second of the three lines is longer."""
    write_lines("src", ["a cat", "dog " * 30, "a cat"])
    write_lines("tgt", ["eine Katze", "Hund", "Katze"])
    write_lines("gold", ["0-0", "0-0 1-0", "0-0"])
    for command, settings, count in (
        (translate, "input=src", 1),
        (align, "src=src tgt=tgt", 1),
        (evaluate, "src=src tgt=tgt links=gold", 2),  # it is not translated, and not aligned
    ):
        lines, error = call(command, f"model={short_model}", *settings.split())
        assert error.count("warning: src:2: source of ") == count
        if command is not evaluate:
            assert [bool(line) for line in lines] == [True, False, True]
    page = f"<p>a<p>{'dog ' * 30}"
    lines, error = call(translate, f"model={short_model}", "format=html", stdin=page.encode())
    assert lines[0].endswith(f"<p>{'dog ' * 30}") and "warning: <stdin>: sentence 2: source of " in error
