"""Workers return every result, repeat the tasks of killed ones, pass errors on, and end with their parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from nmt.errors import UserError
from nmt.system.processes import ProcessWorkers, run_tasks

pytestmark = pytest.mark.thorough


class Numbers(NamedTuple):
    """A task."""

    number: int
    data: bytes = b""

    @property
    def label(self) -> str:
        return f"numbers {self.number}"


@dataclass(frozen=True)
class Double:
    """A function that refuses 13, and whose process is killed by 99 each time and by 7 once."""

    folder: Path

    def __call__(self, task: Numbers) -> int:
        if task.number == 13:
            raise UserError("13: bad luck; take another number")
        if task.number == 99 or (task.number == 7 and not (self.folder / "7").exists()):
            (self.folder / "7").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return 2 * task.number


def results(job: Any, tasks: Iterable[Numbers]) -> dict[int, Any]:
    return {task.number: result for task, result in run_tasks(tasks, ProcessWorkers(job, 2))}


def test_killed_worker_loses_its_task_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert results(Double(tmp_path), map(Numbers, range(12))) == {number: 2 * number for number in range(12)}
    assert results(Double(tmp_path), []) == {}
    message = "warning: numbers 7: their worker was killed, probably because memory ran out; trying them again\n"
    assert capsys.readouterr().err == message


def test_errors_of_a_process_are_raised_here(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="^13: bad luck; take another number$"):
        results(Double(tmp_path), map(Numbers, [1, 13]))
    with pytest.raises(UserError, match=r"^numbers 99: failed 3 times \(their worker was killed, .*; give fewer"):
        results(Double(tmp_path), map(Numbers, [1, 99]))


class EndsAtOnce:
    """A function whose process ends before it takes a task."""

    def __call__(self, task: Numbers) -> None: ...

    def __reduce__(self) -> tuple[Any, ...]:
        return os._exit, (9,)


def test_process_that_takes_no_task_is_reported() -> None:
    large = b"x" * 10_000_000  # more than a pipe holds
    with pytest.raises(
        UserError, match=r"failed 3 times \(their worker ended with exit code 9\); give fewer workers=$"
    ):
        results(EndsAtOnce(), [Numbers(number, large) for number in range(3)])


PARENT = r"""
import os, sys, time
from nmt.system.processes import ProcessWorkers, run_tasks
from tests.system.test_processes import Numbers

def wait(task):
    os.write(1, f"{os.getpid()}\n".encode())
    time.sleep(0.2)

if __name__ == "__main__":
    for _ in run_tasks(map(Numbers, range(10**6)), ProcessWorkers(wait, 2)):
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
