"""The edge of every command: exit codes, signals, closed streams, and one printable line for any error."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest
from builders import write_lines
from commands.processes import MAIN, ROOT, finish, finish_unread, start

import nmt
from nmt.commands.shell import INTERNAL_ERROR, TRACEBACK, run
from nmt.commands.streams import print_path, print_table
from nmt.errors import UserError, print_message, printable

COMMANDS = ("align", "evaluate", "export", "heatmap", "prepare", "translate")
PRINTING = ("align", "evaluate", "export", "heatmap", "prepare", "translate")
# Runs a command until it loads its model or its text, then waits for a signal.
WAITING = """
import sys, time
from nmt.commands import {0} as module, shell

def wait(*_, **__):
    print("ready", file=sys.stderr, flush=True)
    time.sleep(60)

module.load_model = module.load_pairs = wait
shell.run(module.{0})
"""


def test_module_of_a_command_runs_it() -> None:
    words = "-m nmt.commands.heatmap modle=x".split()
    child = subprocess.run([sys.executable, *words], env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True)
    assert child.returncode == 2 and b" modle=x: " in child.stderr


@pytest.fixture
def arguments(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """Arguments with which each command succeeds; the working directory holds its files."""
    monkeypatch.chdir(tmp_path)
    write_lines("src", (f"the dog sees {n} cats" for n in range(40)))
    write_lines("tgt", (f"der Hund sieht {n} Katzen" for n in range(40)))
    texts = ["data.train.src=src", "data.train.tgt=tgt", "data.valid.src=src", "data.valid.tgt=tgt"]
    return {
        "align": [f"model={model}", "src=src", "tgt=tgt"],
        "evaluate": ["hypotheses=src", "tgt=tgt"],
        "export": ["model=src"],
        "heatmap": [f"model={model}", "src=src", "tgt=tgt", "output=pictures", "format=html"],
        "prepare": [*texts, "tokenizer.vocab_size=300", "output=prepared"],
        "translate": [f"model={model}", "input=src", "search=greedy", "search.max_length=5"],
    }


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("command", "number"),
    [
        *((command, signal.SIGTERM) for command in COMMANDS),
        ("translate", signal.SIGHUP),
        ("prepare", signal.SIGHUP),
        ("translate", signal.SIGINT),
    ],
)
def test_signal_ends_a_command_with_its_code_and_leaves_no_files(
    command: str, number: signal.Signals, arguments: dict[str, list[str]], model: Path
) -> None:
    words = arguments[command]
    if command == "evaluate":
        words = [f"model={model}", "src=src", "tgt=tgt"]
    if command == "translate":
        words = [*words, "output=out.gz"]
    with start(WAITING.format(command), words) as child:
        assert child.stderr and child.stderr.readline() == b"ready\n"
        child.send_signal(number)
        out, error = child.communicate(timeout=30)
    message = "interrupted" if number == signal.SIGINT else f"stopped by {number.name}"
    assert (child.returncode, out, error.decode().splitlines()[-1]) == (128 + number, b"", message)
    assert sorted(path.name for path in Path().iterdir()) == ["src", "tgt"]


def test_same_signal_again_ends_a_command_that_is_cleaning_up() -> None:
    code = """
import sys, time
from nmt.commands.shell import run
from nmt.commands.streams import print_table

def command(_):
    try:
        print("ready", file=sys.stderr, flush=True)
        time.sleep(60)
    finally:
        print("cleaning", file=sys.stderr, flush=True)
        time.sleep(60)

run(command, [])
"""
    with start(code) as child:
        assert child.stderr and child.stderr.readline() == b"ready\n"
        child.terminate()
        assert child.stderr.readline() == b"cleaning\n"
        child.terminate()
        assert child.wait(timeout=30) == 143


def test_ignored_hangup_stays_ignored() -> None:
    code = "import signal; from nmt.commands.shell import run; run(lambda _: signal.raise_signal(signal.SIGHUP), [])"
    assert finish(code, shell="trap '' HUP; exec \"$@\"") == (0, b"", b"")


@pytest.mark.thorough
@pytest.mark.parametrize("command", ["help", *sorted({*PRINTING} - {"export"})])
def test_closed_pipe_is_silent(command: str, arguments: dict[str, list[str]]) -> None:
    program = "translate" if command == "help" else command
    assert finish_unread(MAIN.format(program), arguments.get(command, ["--help"])) == (141, b"")


@pytest.mark.thorough
def test_pipe_closed_after_the_first_line_of_much_output_is_silent(arguments: dict[str, list[str]]) -> None:
    write_lines("src", ["a cat"] * 20_000)
    script = '"$@" | head -1; exit ${PIPESTATUS[0]}'
    code, out, error = finish(MAIN.format("translate"), arguments["translate"], script)
    assert (code, out.count(b"\n"), error) == (141, 1, b"")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("command", "words"), [("translate", ["--help"]), *((command, None) for command in PRINTING)], ids=str
)
def test_closed_stdout_is_an_error_before_any_work(
    command: str, words: list[str] | None, arguments: dict[str, list[str]]
) -> None:
    code, _, error = finish(MAIN.format(command), words or arguments[command], 'exec "$@" >&-')
    assert code == 2 and error.startswith(b"error: <stdout>: closed; ") and error.count(b"\n") == 1, error
    assert sorted(path.name for path in Path().iterdir()) == ["src", "tgt"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize(
    "command",
    [
        "evaluate",
        *(pytest.param(name, marks=pytest.mark.thorough) for name in sorted({*PRINTING} - {"evaluate", "export"})),
    ],
)
def test_full_disk_behind_stdout_is_an_error(command: str, arguments: dict[str, list[str]]) -> None:
    code, _, error = finish(MAIN.format(command), arguments[command], 'exec "$@" >/dev/full')
    assert code == 2 and error.count(b"\n") == 1 and b"No space left" in error, error


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_last_output_that_a_full_disk_loses_is_an_error() -> None:
    """The text stays in Python's buffer until the command has ended."""
    program = "from nmt.commands.shell import run; run(lambda _: print('x'), [])"
    code, _, error = finish(program, shell='unset PYTHONUNBUFFERED; exec "$@" >/dev/full')
    assert code == 2 and error.count(b"\n") == 1 and b"No space left" in error


def test_files_never_get_the_number_of_a_closed_standard_stream(tmp_path: Path) -> None:
    code = "from nmt.commands.shell import run; run(lambda _: print(open('x', 'w').fileno(), file=open('y', 'w')), [])"
    assert finish(code, shell='exec "$@" <&- >&- 2>&-', cwd=tmp_path) == (0, b"", b"")
    assert int((tmp_path / "y").read_text()) > 2


def test_text_that_the_locale_lacks_is_escaped() -> None:
    code = "from nmt.commands.shell import run; run(lambda _: print('jürgen 日本'), [])"
    assert finish(code, env={"PYTHONIOENCODING": "ascii"}) == (0, b"j\\xfcrgen \\u65e5\\u672c\n", b"")


class Unprintable(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


def fail(error: BaseException) -> Mock:
    return Mock(side_effect=error)


def recurse(depth: object) -> None:
    recurse(depth)


@pytest.mark.parametrize(
    ("command", "code", "start", "end"),
    [
        (fail(UserError("x=1: wrong; remove it")), 2, "error: x=1: wrong; remove it\n", ""),
        (fail(UserError("a", "b")), 2, "error: a\n       b\n", ""),
        (fail(MemoryError()), 2, "error: not enough RAM", "at once\n"),
        (fail(RuntimeError("DefaultCPUAllocator: can't allocate memory: …")), 2, "error: not enough RAM", ""),
        (fail(OSError(24, "Too many open files", "x")), 2, "error: x: Too many open files; allow more open files", ""),
        (fail(FileNotFoundError(2, "No file", "a\x1b\n\u202e日")), 2, "error: a\\x1b\\n\\u202e日: No file", ""),
        (fail(OSError(28, "No space left on device")), 2, "error: No space left on device; free some disk space", ""),
        (fail(SystemExit(3)), 3, "", ""),
        (fail(KeyboardInterrupt()), 130, "interrupted\n", ""),
        (recurse, 70, "error: internal error: RecursionError: ", f"report it ({TRACEBACK}=1 shows the traceback)\n"),
        (fail(KeyError("a\x1b[2J\nb")), 70, "error: internal error: KeyError: 'a\\x1b[2J\\nb'; please report it", ""),
        (fail(ValueError("a\nb\x1b")), 70, "error: internal error: ValueError: a b\\x1b; please report it", ""),
        (fail(AssertionError()), 70, "error: internal error: AssertionError: ;", ""),
        (fail(GeneratorExit()), 70, "error: internal error: GeneratorExit", ""),
        (fail(Unprintable()), 70, "error: internal error: Unprintable\n", ""),
    ],
)  # fmt: skip
def test_any_exception_is_one_line(
    command: Callable[[list[str]], None],
    code: int,
    start: str,
    end: str,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("nmt.commands.shell.trusted_packages", set())  # other tests trust some
    with pytest.raises(SystemExit) as caught:
        run(command, [])
    error = capfd.readouterr().err
    assert caught.value.code == code
    assert error.startswith(start) and error.endswith(end) and "Traceback" not in error, error
    assert error.count("\n") == (2 if "\n " in start else bool(start))


def test_traceback_is_shown_on_request(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TRACEBACK, "1")
    monkeypatch.setattr("nmt.commands.shell.trusted_packages", set())  # other tests trust some
    with pytest.raises(SystemExit) as caught:
        run(fail(ValueError("\x1b[2J")), [])
    lines = capsys.readouterr().err.splitlines()
    assert caught.value.code == INTERNAL_ERROR
    assert lines[0] == "Traceback (most recent call last):" and lines[-2] == "ValueError: \\x1b[2J"
    assert lines[-1].startswith("error: internal error: ValueError: \\x1b[2J; ")


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_last_handler_survives_closed_streams(closed: str) -> None:
    code = "from nmt.commands.shell import run; print = 0; run(lambda _: 1 / print, [])"
    number, _, error = finish(code, shell=f'exec "$@" {closed}')
    assert number == INTERNAL_ERROR
    assert b"Traceback" not in error and error.count(b"\n") == ("2>&-" not in closed), error


def test_last_handler_needs_no_file_descriptor() -> None:
    code = """
import os, resource
from nmt.commands.shell import run
from nmt.commands.streams import print_table

def command(_):
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    print("lost" * 5000)
    while True:
        os.dup(0)

run(command, [])
"""
    assert finish_unread(code) == (141, b"")
    message = b"error: Too many open files; allow more open files (ulimit -n)\n"
    assert finish(code.replace('print("lost" * 5000)', "")) == (2, b"", message)


def test_broken_pipe_that_rich_turns_into_an_exit_keeps_its_code() -> None:
    code = """
from nmt.commands.shell import run
from nmt.commands.streams import print_table

def command(_):
    from rich.console import Console
    Console().print("x")

run(command, [])
"""
    assert finish_unread(code) == (141, b"")


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


def test_every_message_is_made_printable() -> None:
    root = Path(nmt.__file__).parent
    printed = [
        f"{path.name}: {line.strip()}" for path in root.rglob("*.py") for line in path.read_text("utf-8").splitlines()
    ]
    direct = [line for line in printed if re.search(r"file=.*stderr|stderr\.write", line)]
    # A status line needs a carriage return.
    assert sorted(line.partition(":")[0] for line in direct) == ["errors.py", "progress.py"], direct


def test_names_of_files_need_not_be_text(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    print_path(Path("a\udcff"))
    assert capfdbinary.readouterr().out == b"a\xff\n"


def test_warnings_of_libraries_are_one_printable_line(capsys: pytest.CaptureFixture[str]) -> None:
    def command(_: list[str]) -> None:
        warnings.simplefilter("always")
        warnings.warn("a\nb\x1b", stacklevel=1)

    with pytest.raises(SystemExit):
        run(command, [])
    assert capsys.readouterr().err == "warning: a b\\x1b\n"


@pytest.mark.parametrize("columns", [2, 12, 30])
def test_no_number_of_a_table_is_cut(columns: int, capsys: pytest.CaptureFixture[str]) -> None:
    """A table that is wider than the window was cut at its edge, within a number."""
    headings = [f"column {number}" for number in range(columns)]
    rows = [[f"{row}{number:02}.{number:02} ± 1.23" for number in range(columns)] for row in (1, 2)]
    print_table([["a", *rows[0]], ["b", *rows[1]]], ["model", *headings], numbers=headings)
    lines = [[cell.strip() for cell in line.split("│")[2:-1]] for line in capsys.readouterr().out.splitlines()]
    assert [line for line in lines if line] == rows
