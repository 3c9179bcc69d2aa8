"""A program that is stopped while it is still importing its modules ends with one line and the right exit code."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from nmt.commands import programs

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = ["prepare", "train", "translate", "evaluate", "encode", "export", "align", "heatmap", "compare"]
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
LOAD_TORCH = """
from nmt.commands import programs, shell
shell.run = lambda command: __import__("torch")
programs.train()
"""
ENDINGS = {
    signal.SIGINT: (130, b"interrupted\n"),
    signal.SIGTERM: (143, b"stopped by SIGTERM\n"),
    signal.SIGHUP: (129, b"stopped by SIGHUP\n"),
}


def finish(code: str, words: list[str], shell: str = 'exec "$@"') -> tuple[int, bytes, bytes]:
    """Run Python code in a shell command; return exit code, stdout and stderr."""
    command = ["bash", "-c", shell, "bash", sys.executable, "-c", code, *words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    run = subprocess.run(command, capture_output=True, env=environment, stdin=subprocess.DEVNULL, timeout=120)
    return run.returncode, run.stdout, run.stderr


@pytest.mark.parametrize(
    ("command", "number", "stop"),
    [
        *((command, 3, signal.SIGINT) for command in COMMANDS),
        *(("train", number, signal.SIGINT) for number in (1, 10, 40, 100, 200, 1500)),
        *(("translate", number, signal.SIGTERM) for number in (1, 2, 20, 70, 150, 200)),
        *(("prepare", number, signal.SIGHUP) for number in (1, 30, 120)),
    ],
)
def test_signal_during_imports_ends_with_one_line(tmp_path: Path, command: str, number: int, stop: int) -> None:
    words = {"train": ["name=x", f"runs={tmp_path}"], "prepare": [f"output={tmp_path}/x", "data=copy"]}
    code = STOP_AT_IMPORT.format(command=command, number=number, signal=int(stop))
    expected_code, line = ENDINGS[signal.Signals(stop)]
    assert finish(code, words.get(command, ["model=no", "src=no", "tgt=no", "output=no"])) == (expected_code, b"", line)
    assert list(tmp_path.iterdir()) == []


def test_few_modules_are_imported_before_signals_are_handled() -> None:
    """Until then, Python prints its own traceback."""
    code = "import sys; before = set(sys.modules); import nmt.commands.programs; print(*set(sys.modules) - before)"
    modules = set(finish(code, [])[1].decode().split())
    assert modules - {"__future__", "_signal"} == {"nmt", "nmt.version", "nmt.commands", "nmt.commands.programs"}


def test_ignored_signal_stays_ignored() -> None:
    code = STOP_AT_IMPORT.format(command="evaluate", number=2, signal=int(signal.SIGHUP))
    status, out, error = finish(code, ["--help"], shell="trap '' HUP; exec \"$@\"")
    assert (status, error) == (0, b"") and out.startswith(b"nmt-evaluate: ")


@pytest.mark.parametrize(("chosen", "spins"), [({}, "1000"), ({"GOMP_SPINCOUNT": "7"}, "7")])
def test_threads_of_torch_spin_briefly(chosen: dict[str, str], spins: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"OMP_DISPLAY_ENV": "verbose", **chosen}.items():
        monkeypatch.setenv(name, value)
    _, _, printed = finish(LOAD_TORCH, [])
    if b"GOMP_SPINCOUNT" not in printed:
        pytest.skip("this torch does not use GNU OpenMP")
    assert f"GOMP_SPINCOUNT = '{spins}'".encode() in printed


def test_chosen_wait_policy_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_DISPLAY_ENV", "verbose")
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")
    assert b"GOMP_SPINCOUNT = '1000'" not in finish(LOAD_TORCH, [])[2]


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", ">&- 2>&- <&-"])
def test_closed_streams_at_the_start(closed: str) -> None:
    code, out, error = finish("from nmt.commands.programs import heatmap; heatmap()", ["--help"], f'exec "$@" {closed}')
    assert code == (2 if ">&-" in closed.replace("2>&-", "") else 0) and b"Traceback" not in error
    assert error.count(b"\n") == (1 if closed == ">&-" else 0)


def test_signal_that_a_library_turns_into_another_error_is_reported_as_the_signal() -> None:
    code = """
import signal
from nmt.commands.shell import run

def command(_):
    try:
        signal.raise_signal({0})
    except BaseException:
        raise ImportError("numpy.core.multiarray failed to import")

run(command, [])
"""
    for stop, (status, line) in ENDINGS.items():
        assert finish(code.format(int(stop)), []) == (status, b"", line)


def test_signal_that_python_would_ignore_ends_the_program() -> None:
    """An exception in a destructor cannot be raised; Python would print a traceback and go on."""
    code = """
import signal
from nmt.commands.shell import run

class Destructor:
    def __del__(self):
        signal.raise_signal({0})

def command(_):
    Destructor()
    print("went on")

run(command, [])
"""
    for stop, (status, line) in ENDINGS.items():
        assert finish(code.format(int(stop)), []) == (status, b"", line)


def test_installed_programs_and_scripts_are_these() -> None:
    scripts: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["scripts"]
    assert scripts == {f"nmt-{command}": f"nmt.commands.programs:{command}" for command in COMMANDS}
    assert all(callable(getattr(programs, command)) for command in COMMANDS)
    for command in COMMANDS:
        assert f"from nmt.commands.programs import {command}\n" in (ROOT / "scripts" / f"{command}.py").read_text()
