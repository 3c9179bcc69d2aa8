"""The edge of every command: exit codes, signals, closed streams, and one printable line for any error."""

from __future__ import annotations

import signal
import tomllib
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from commands.processes import ROOT, finish

from nmt.commands.shell import INTERNAL_ERROR, TRACEBACK, run
from nmt.commands.streams import print_path, print_table
from nmt.errors import UserError, print_message, printable

CLOSED, FULL = 'exec "$@" >&-', 'unset PYTHONUNBUFFERED; exec "$@" >/dev/full'
UNREAD = 'unset PYTHONUNBUFFERED; "$@" | :; exit ${PIPESTATUS[0]}'
needs_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")


PRELUDE = """
import os, resource, signal, sys
from nmt.commands.shell import run
from nmt.commands.streams import require_stdout

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

def descriptors(text):
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    print(text, end="")
    while True:
        os.dup(0)
"""


@pytest.mark.parametrize(
    ("program", "shell", "expected", "message"),
    [
        ("run(again, [])", "exec {}", (143, b""), b""),
        ("run(replaced, [])", "exec {}", (130, b""), b"interrupted\n"),
        ("run(lambda _: signal.raise_signal(1), [])", "exec {}", (129, b""), b"stopped by SIGHUP\n"),
        ("run(lambda _: signal.raise_signal(1), [])", "trap '' HUP; exec {}", (0, b""), b""),
        pytest.param("run(lambda _: print('x'), [])", FULL, (2, b""), b"error: ", marks=needs_full),
        (
            "from nmt.commands.evaluate import evaluate; run(evaluate, ['tgt=x', 'hypotheses=x'])",
            CLOSED,
            (2, b""),
            b"error: <st",
        ),
        ("run(lambda _: print('ü'), [])", "PYTHONIOENCODING=ascii exec {}", (0, b"\\xfc\n"), b""),
        ("run(lambda _: descriptors('lost'), [])", UNREAD, (2, b""), b"error: Too many open files"),
        ("run(lambda _: sys.exit(os.dup(0) < 3), [])", "exec {} <&- >&- 2>&-", (0, b""), b""),
        ("run(lambda _: 1 / 0, [])", "exec {} >&-", (INTERNAL_ERROR, b""), b"error: internal error"),
    ],
)
def test_ends_of_a_program(program: str, shell: str, expected: tuple[int, bytes], message: bytes) -> None:
    code, out, error = finish(PRELUDE + program, shell=shell.replace("{}", '"$@"'))
    assert (code, out) == expected
    assert error.startswith(message) and error.count(b"\n") == bool(message), error


# Sends the signal to itself when the program looks for its N-th module.
STOP_AT_IMPORT = """
import sys
from nmt.commands.programs import {command}
import _signal

class Stop:
    count = 0
    def find_spec(self, name, path=None, target=None):
        self.count += 1
        if self.count == {number}:
            _signal.raise_signal({signal})

sys.meta_path.insert(0, Stop())
{command}()
"""


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("command", "number", "stop", "ending"),
    [
        *(("train", number, signal.SIGINT, (130, b"", b"interrupted\n")) for number in (1, 1500)),
        *(("translate", number, signal.SIGTERM, (143, b"", b"stopped by SIGTERM\n")) for number in (2, 150)),
    ],
)
def test_signal_during_imports_ends_with_one_line(
    tmp_path: Path, command: str, number: int, stop: int, ending: tuple[int, bytes, bytes]
) -> None:
    words = {"train": ["name=x", f"runs={tmp_path}"], "translate": ["model=no"]}
    code = STOP_AT_IMPORT.format(command=command, number=number, signal=int(stop))
    assert finish(code, words[command]) == ending and not [*tmp_path.iterdir()]


def recurse(depth: object) -> None:
    recurse(depth)


def warn(_: object) -> None:
    warnings.simplefilter("always")
    warnings.warn("a\nb\x1b", stacklevel=1)


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
        (ValueError("a\nb\x1b"), 70, "error: internal error: ValueError: a b\\x1b"),
        (GeneratorExit(), 70, "error: internal error: GeneratorExit"),
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
        ("jürgen 日本 👩\u200d🚀 e\u0301 ک\u200cن \u00a0€", "jürgen 日本 👩\u200d🚀 e\u0301 ک\u200cن \u00a0€"),
        ("a\x1b[31mb\x07\x00\x7f\x9b\nb\r\tc\u2028d\u0085", "a\\x1b[31mb\\x07\\x00\\x7f\\x9b\\nb\\r\\tc\\u2028d\\x85"),
        ("a\u202eb\u2066c\u200e\u200b\ufeff", "a\\u202eb\\u2066c\\u200e\\u200b\\ufeff"),
        ("a\udcffb\U000e0041 C:\\new", "a\\udcffb\\U000e0041 C:\\new"),
    ],
)
def test_text_is_made_printable(text: str, shown: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert printable(text) == shown == printable(shown)
    print_message(text)
    assert capsys.readouterr().err == f"{shown}\n"


def test_names_of_files_need_not_be_text(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    print_path(Path("a\udcff"))
    assert capfdbinary.readouterr().out == b"a\xff\n"


def test_a_table_has_a_line_per_row_and_aligned_columns(capsys: pytest.CaptureFixture[str]) -> None:
    print_table([["a", "1.50"], ["bcd", "10.25"]], ["model", "BLEU"], numbers=["BLEU"], title="t")
    assert capsys.readouterr().out == "t\nmodel   BLEU\na       1.50\nbcd    10.25\n"


def test_each_command_is_installed() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["scripts"]
    commands = [path.stem for path in (ROOT / "conf").glob("*.yaml")]
    assert scripts == {f"nmt-{command}": f"nmt.commands.programs:{command}" for command in commands}


def test_few_modules_are_imported_before_signals_are_handled() -> None:
    """Until then, Python prints its own traceback."""
    code = "import sys; before = set(sys.modules); import nmt.commands.programs; print(*set(sys.modules) - before)"
    modules = set(finish(code)[1].decode().split())
    assert modules - {"__future__", "_signal"} == {"nmt", "nmt.version", "nmt.commands", "nmt.commands.programs"}
