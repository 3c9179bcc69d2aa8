"""Parallel processes return every result, pass errors on, and end with their parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from nmt.errors import UserError
from nmt.text.processes import in_processes

pytestmark = pytest.mark.thorough


def double(number: int) -> int:
    if number == 13:
        raise UserError("13: bad luck; take another number")
    if number == 99:
        os.kill(os.getpid(), signal.SIGKILL)
    return 2 * number


@pytest.mark.parametrize("workers", [1, 2])
def test_every_task_has_a_result(workers: int) -> None:
    assert sorted(in_processes(double, range(8), workers=workers)) == list(range(0, 16, 2))
    assert list(in_processes(double, [], workers=workers)) == []


def test_errors_of_a_process_are_raised_here() -> None:
    with pytest.raises(UserError, match="^13: bad luck; take another number$"):
        list(in_processes(double, [1, 13], workers=2))
    with pytest.raises(UserError, match=r"^workers: a process ended with exit code -9; if memory ran out"):
        list(in_processes(double, [1, 99], workers=2))


class EndsAtOnce:
    """A function whose process ends before it takes a task."""

    def __call__(self, task: bytes) -> None: ...

    def __reduce__(self) -> tuple[Any, ...]:
        return os._exit, (9,)


def test_process_that_takes_no_task_is_reported() -> None:
    large = b"x" * 10_000_000  # more than a pipe holds
    with pytest.raises(UserError, match=r"^workers: a process ended with exit code 9; if memory ran out"):
        list(in_processes(EndsAtOnce(), [large] * 3, workers=2))


PARENT = r"""
import os, sys, time
from nmt.text.processes import in_processes

def wait(number):
    os.write(1, f"{os.getpid()}\n".encode())
    time.sleep(0.2)
    return number

if __name__ == "__main__":
    for _ in in_processes(wait, range(10**6), workers=2):
        pass
"""


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="needs /proc")
def test_processes_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    (tmp_path / "parent.py").write_text(PARENT)
    root = Path(__file__).resolve().parents[2]
    parent = subprocess.Popen(
        [sys.executable, str(tmp_path / "parent.py")],
        env={**os.environ, "PYTHONPATH": str(root)},
        stdout=subprocess.PIPE,
    )
    assert parent.stdout is not None
    children: set[int] = set()
    while len(children) < 2:
        children.add(int(parent.stdout.readline()))
    parent.kill()
    parent.wait()
    parent.stdout.close()
    end = time.monotonic() + 30
    while any(Path(f"/proc/{child}").exists() for child in children):
        assert time.monotonic() < end
        time.sleep(0.05)
