"""A program that is stopped while it is still importing its modules ends with one line and the right exit code."""

from __future__ import annotations

import signal
import tomllib
from pathlib import Path
from typing import Any

import pytest
from commands.processes import MAIN, ROOT, finish

pytestmark = pytest.mark.thorough

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


@pytest.mark.parametrize(
    ("command", "number", "stop"),
    [
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
    modules = set(finish(code)[1].decode().split())
    assert modules - {"__future__", "_signal"} == {"nmt", "nmt.version", "nmt.commands", "nmt.commands.programs"}


def test_ignored_signal_stays_ignored() -> None:
    code = STOP_AT_IMPORT.format(command="evaluate", number=2, signal=int(signal.SIGHUP))
    status, out, error = finish(code, ["--help"], shell="trap '' HUP; exec \"$@\"")
    assert (status, error) == (0, b"") and out.startswith(b"nmt-evaluate: ")


@pytest.mark.parametrize(
    ("chosen", "spins"), [({}, "1000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "ACTIVE"}, None)]
)
def test_threads_of_torch_spin_briefly(chosen: dict[str, str], spins: str | None) -> None:
    _, _, printed = finish(LOAD_TORCH, env={"OMP_DISPLAY_ENV": "verbose", **chosen})
    if b"GOMP_SPINCOUNT" not in printed:
        pytest.skip("this torch does not use GNU OpenMP")
    assert (f"GOMP_SPINCOUNT = '{spins or 1000}'".encode() in printed) is (spins is not None)


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", ">&- 2>&- <&-"])
def test_closed_streams_at_the_start(closed: str) -> None:
    code, _, error = finish(MAIN.format("heatmap"), ["--help"], f'exec "$@" {closed}')
    assert code == (2 if ">&-" in closed.replace("2>&-", "") else 0) and b"Traceback" not in error
    assert error.count(b"\n") == (1 if closed == ">&-" else 0)


TURNED_INTO_ANOTHER_ERROR = """
import signal
from nmt.commands.shell import run

def command(_):
    try:
        signal.raise_signal({0})
    except BaseException:
        raise ImportError("numpy.core.multiarray failed to import")

run(command, [])
"""
# An exception in a destructor cannot be raised; Python would print a traceback and go on.
IN_A_DESTRUCTOR = """
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


@pytest.mark.parametrize("stop", ENDINGS)
@pytest.mark.parametrize("code", [TURNED_INTO_ANOTHER_ERROR, IN_A_DESTRUCTOR], ids=["other error", "destructor"])
def test_signal_that_would_be_lost_ends_the_program(code: str, stop: signal.Signals) -> None:
    status, line = ENDINGS[stop]
    assert finish(code.format(int(stop))) == (status, b"", line)


def test_each_command_is_installed() -> None:
    scripts: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["scripts"]
    commands = [path.stem for path in (ROOT / "conf").glob("*.yaml")]
    assert scripts == {f"nmt-{command}": f"nmt.commands.programs:{command}" for command in commands}
