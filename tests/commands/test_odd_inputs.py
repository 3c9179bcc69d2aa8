"""Empty files, and lines that a model cannot read: every command goes on, with one output line per line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from builders import write_lines
from commands.processes import MAIN, finish
from commands.texts import Call

from nmt.commands.align import align
from nmt.commands.evaluate import evaluate
from nmt.commands.translate import translate

EMPTY = "its translation is empty"
UNALIGNED = "it is not aligned"


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (align, "src=empty tgt=empty"),
        (align, ""),
        (translate, "input=empty output=out alignments=links"),
        (translate, ""),
    ],
)
def test_empty_input_gives_empty_output(
    command: Callable[[list[str]], None], words: str, model: Path, files: Path, call: Call
) -> None:
    Path("empty").touch()
    assert call(command, f"model={model}", *words.split()).lines == []
    for name in ("out", "links") if "out=" in words else ():
        assert Path(name).read_bytes() == b""


@pytest.mark.parametrize("name", ["<stdin>", "in.txt"])
@pytest.mark.parametrize(("redirection", "left"), [(">>", "a\n"), (">", "")])
def test_a_file_that_is_input_and_stdout_is_refused(
    name: str, redirection: str, left: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With >>, the command would translate its own output for ever, and with > nothing."""
    monkeypatch.chdir(tmp_path)
    write_lines("in.txt", ["a"])
    source = ["input=in.txt"] * (name == "in.txt")
    shell = f'exec "$@" < in.txt {redirection} in.txt'
    code, _, error = finish(MAIN.format("translate"), ["model=x", *source], shell)
    assert error.decode() == f"error: {name}: stdout writes into the same file; redirect it to another one\n"
    assert (code, Path("in.txt").read_text()) == (2, left)


@pytest.fixture
def words(short_model: Path, files: Path) -> list[str]:
    """The argument that names a model for up to 20 pieces. The second of the three lines is longer."""
    write_lines("src", ["a cat", "dog " * 30, "a cat"])
    write_lines("tgt", ["eine Katze", "Hund", "Katze"])
    write_lines("gold", ["0-0", "0-0 1-0", "0-0"])
    return [f"model={short_model}"]


@pytest.mark.parametrize(
    ("command", "settings", "endings"),
    [
        (translate, "input=src", [EMPTY]),
        (align, "src=src tgt=tgt", [UNALIGNED]),
        (evaluate, "src=src tgt=tgt links=gold", [EMPTY, UNALIGNED]),
    ],
)
def test_source_too_long_for_the_attention_is_named(
    command: Any, settings: str, endings: list[str], words: list[str], call: Call
) -> None:
    error = call(command, *words, *settings.split()).error
    warnings = [line for line in error.splitlines() if line.startswith("warning: src:2: source of ")]
    assert [line.rpartition("; ")[2] for line in warnings] == endings and "holds at most 20" in warnings[0]


def test_other_lines_are_translated_and_aligned(words: list[str], call: Call) -> None:
    translations = call(translate, *words, "input=src").lines
    assert translations[1] == "" and translations[0] == translations[2] != ""
    texts = ["src=src", "tgt=tgt"]
    links = call(align, *words, *texts).lines
    assert [len(line.split()) for line in links] == [2, 0, 1]
    write_lines("gold", [links[0], "0-0 1-0", links[2]])  # three links are found, two are not
    assert call(evaluate, *words, *texts, "links=gold").lines[-1].startswith(f"AER {1 - 6 / (3 + 5):.4f} ")


def test_long_sentence_stays_in_its_document(short_model: Path, call: Call) -> None:
    long = "dog " * 200
    lines, error = call(translate, f"model={short_model}", "format=html", stdin=f"<p>a<p>{long}".encode())
    assert lines[0].endswith(f"<p>{long}") and "warning: <stdin>: sentence 2: source of " in error
