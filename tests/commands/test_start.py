"""A program that is stopped while it is still importing its modules ends with one line and the right exit code."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from commands.processes import finish

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
        *(("train", number, signal.SIGINT) for number in (1, 40, 1500)),
        *(("translate", number, signal.SIGTERM) for number in (2, 20, 150)),
        ("prepare", 120, signal.SIGHUP),
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


@pytest.mark.parametrize(
    ("chosen", "spins"), [({}, "1000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "ACTIVE"}, None)]
)
def test_threads_of_torch_spin_briefly(chosen: dict[str, str], spins: str | None) -> None:
    _, _, printed = finish(LOAD_TORCH, env={"OMP_DISPLAY_ENV": "verbose", **chosen})
    if b"GOMP_SPINCOUNT" not in printed:
        pytest.skip("this torch does not use GNU OpenMP")
    assert (f"GOMP_SPINCOUNT = '{spins or 1000}'".encode() in printed) is (spins is not None)
