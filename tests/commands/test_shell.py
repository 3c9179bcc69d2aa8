"""The edge of every command: exit codes, signals, closed streams, and one printable line for any error."""

from __future__ import annotations

import tomllib
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from builders import write_lines
from commands.processes import MAIN, ROOT, finish

from nmt.commands.shell import INTERNAL_ERROR, TRACEBACK, run
from nmt.commands.streams import print_path, print_table
from nmt.errors import UserError, print_message, printable


def thorough(*rows: tuple[Any, ...]) -> list[Any]:
    return [pytest.param(*row, marks=pytest.mark.thorough) for row in rows]


@pytest.fixture
def arguments(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """Arguments with which each command succeeds; the working directory holds its files."""
    monkeypatch.chdir(tmp_path)
    write_lines("src", (f"the dog sees {n} cats" for n in range(40)))
    write_lines("tgt", (f"der Hund sieht {n} Katzen" for n in range(40)))
    texts = [f"data.{part}.{side}={side}" for part in ("train", "valid") for side in ("src", "tgt")]
    return {
        "evaluate": ["hypotheses=src", "tgt=tgt"],
        "heatmap": [f"model={model}", "src=src", "tgt=tgt", "output=pictures", "format=html"],
        "prepare": [*texts, "tokenizer.vocab_size=300", "output=prepared"],
        "translate": [f"model={model}", "input=src", "search=greedy", "search.max_length=5"],
        "train": ["--help"],
    }


CLOSED, FULL = 'exec "$@" >&-', 'unset PYTHONUNBUFFERED; exec "$@" >/dev/full'
UNREAD = '"$@" | :; exit ${PIPESTATUS[0]}'


def require_full(shell: str) -> None:
    if shell == FULL and not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")


@pytest.mark.parametrize(
    ("command", "shell", "expected", "message"),
    [
        ("evaluate", FULL, 2, b"No space left"),
        *thorough(
            ("translate", FULL, 2, b"No space left"),
            *((command, UNREAD, 141, b"") for command in ("train", "heatmap", "translate")),
            *((command, CLOSED, 2, b"<stdout>: closed") for command in ("train", "prepare")),
        ),
    ],
)
def test_lost_output_ends_a_command(
    command: str, shell: str, expected: int, message: bytes, arguments: dict[str, list[str]]
) -> None:
    require_full(shell)
    code, _, error = finish(MAIN.format(command), arguments[command], shell)
    assert (code, error.count(b"\n")) == (expected, bool(message)) and message in error, error
    if shell == CLOSED:  # before any work
        assert sorted(path.name for path in Path().iterdir()) == ["src", "tgt"]


PRELUDE = """
import os, resource, signal, sys
from nmt.commands.shell import run

def again(_):
    try:
        signal.raise_signal(15)
    finally:
        signal.raise_signal(15)
        print("went on")

def replaced(_):  # by a library that was just imported
    try:
        signal.raise_signal(2)
    except BaseException:
        raise ImportError("numpy.core.multiarray failed to import")

class Destructor:  # whose exception Python cannot raise
    def __del__(self):
        signal.raise_signal(1)

def destructed(_):
    Destructor()
    print("went on")

def descriptors(text):
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    print(text, end="")
    while True:
        os.dup(0)

def rich(_):
    from rich.console import Console
    Console().print("x")
"""


@pytest.mark.parametrize(
    ("program", "shell", "expected", "message"),
    [
        ("run(again, [])", "exec {}", (143, b""), b""),
        ("run(replaced, [])", "exec {}", (130, b""), b"interrupted\n"),
        ("run(destructed, [])", "exec {}", (129, b""), b"stopped by SIGHUP\n"),
        ("run(lambda _: signal.raise_signal(1), [])", "trap '' HUP; exec {}", (0, b""), b""),
        ("run(lambda _: print('x'), [])", FULL, (2, b""), b"error: "),
        ("run(lambda _: print('ü'), [])", "PYTHONIOENCODING=ascii exec {}", (0, b"\\xfc\n"), b""),
        ("run(lambda _: descriptors(''), [])", "exec {}", (2, b""), b"error: Too many open files"),
        ("run(lambda _: descriptors('lost' * 5000), [])", UNREAD, (141, b""), b""),
        ("run(rich, [])", UNREAD, (141, b""), b""),
        ("run(lambda _: sys.exit(os.dup(0) < 3), [])", "exec {} <&- >&- 2>&-", (0, b""), b""),
        ("run(lambda _: 1 / 0, [])", "exec {} >&-", (INTERNAL_ERROR, b""), b"error: internal error"),
        ("run(lambda _: 1 / 0, [])", "exec {} <&- >&- 2>&-", (INTERNAL_ERROR, b""), b""),
    ],
)
def test_ends_of_a_program(program: str, shell: str, expected: tuple[int, bytes], message: bytes) -> None:
    require_full(shell)
    code, out, error = finish(PRELUDE + program, shell=shell.replace("{}", '"$@"'))
    assert (code, out) == expected
    assert error.startswith(message) and error.count(b"\n") == bool(message), error


def recurse(depth: object) -> None:
    recurse(depth)


def warn(_: object) -> None:
    warnings.simplefilter("always")
    warnings.warn("a\nb\x1b", stacklevel=1)


class Unprintable(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


@pytest.mark.parametrize(
    ("error", "code", "start"),
    [
        (UserError("x=1: wrong; remove it"), 2, "error: x=1: wrong; remove it\n"),
        (UserError("a", "b"), 2, "error: a\n       b\n"),
        (MemoryError(), 2, "error: not enough RAM"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: …"), 2, "error: not enough RAM"),
        (FileNotFoundError(2, "No file", "a\x1b\n\u202e日"), 2, "error: a\\x1b\\n\\u202e日: No file"),
        (SystemExit(3), 3, ""),
        (KeyboardInterrupt(), 130, "interrupted\n"),
        (recurse, 70, "error: internal error: RecursionError: "),
        (KeyError("a\x1b[2J\nb"), 70, "error: internal error: KeyError: 'a\\x1b[2J\\nb'"),
        (ValueError("a\nb\x1b"), 70, "error: internal error: ValueError: a b\\x1b"),
        (GeneratorExit(), 70, "error: internal error: GeneratorExit"),
        (Unprintable(), 70, "error: internal error: Unprintable\n"),
        (warn, 0, "warning: a b\\x1b\n"),
    ],
)
def test_any_exception_is_one_line(
    error: Any, code: int, start: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nmt.commands.shell.trusted_packages", set())  # other tests trust some
    command: Callable[[list[str]], None] = error if callable(error) else Mock(side_effect=error)
    with pytest.raises(SystemExit) as caught:
        run(command, [])
    shown = capfd.readouterr().err
    assert (caught.value.code, shown.count("\n")) == (code, 2 if "\n " in start else bool(start))
    assert shown.startswith(start) and "Traceback" not in shown, shown


def test_traceback_is_shown_on_request(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TRACEBACK, "1")
    with pytest.raises(SystemExit):
        run(Mock(side_effect=ValueError("\x1b[2J")), [])
    first, *_, error, last = capsys.readouterr().err.splitlines()
    assert first.startswith("Traceback ") and error == "ValueError: \\x1b[2J" and last.startswith("error: ")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("jürgen 日本 🙂 👩\u200d🚀 e\u0301 ک\u200cن \u00a0€", "jürgen 日本 🙂 👩\u200d🚀 e\u0301 ک\u200cن \u00a0€"),
        ("a\x1b[31mb\x07\x00\x7f\x9b", "a\\x1b[31mb\\x07\\x00\\x7f\\x9b"),
        ("a\nb\r\tc\u2028d\u0085", "a\\nb\\r\\tc\\u2028d\\x85"),
        ("a\u202eb\u2066c\u200e\u200b\ufeff", "a\\u202eb\\u2066c\\u200e\\u200b\\ufeff"),
        ("a\udcffb\U000e0041", "a\\udcffb\\U000e0041"),
        ("C:\\new", "C:\\new"),
    ],
)
def test_text_is_made_printable(text: str, shown: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert printable(text) == shown == printable(shown)
    print_message(text)
    assert capsys.readouterr().err == f"{shown}\n"


def test_names_of_files_need_not_be_text(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    print_path(Path("a\udcff"))
    assert capfdbinary.readouterr().out == b"a\xff\n"


@pytest.mark.parametrize("columns", [2, 30])
def test_no_number_of_a_table_is_cut(columns: int, capsys: pytest.CaptureFixture[str]) -> None:
    headings = [f"column {number}" for number in range(columns)]
    rows = [[f"{row}{number:02}.{number:02} ± 1.23" for number in range(columns)] for row in (1, 2)]
    print_table([["a", *rows[0]], ["b", *rows[1]]], ["model", *headings], numbers=headings)
    lines = [[cell.strip() for cell in line.split("│")[2:-1]] for line in capsys.readouterr().out.splitlines()]
    assert [line for line in lines if line] == rows


def test_each_command_is_installed() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["scripts"]
    commands = [path.stem for path in (ROOT / "conf").glob("*.yaml")]
    assert scripts == {f"nmt-{command}": f"nmt.commands.programs:{command}" for command in commands}
