"""Workers return every result in order, pass errors on, and end with their parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from commands.processes import ROOT, wait_until

from nmt.errors import UserError
from nmt.system.processes import run_tasks

pytestmark = pytest.mark.thorough


def double(number: int) -> int:
    """Return the double, refuse 13, end the process at 99, and wait for the negative ones."""
    if number == 13:
        raise ValueError("13: bad luck")
    if number == 99:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.05 * (number % 2) if number >= 0 else 1000)
    return 2 * number


def results(tasks: Iterable[int]) -> list[tuple[int, int]]:
    return list(run_tasks(double, tasks, 2))


def test_results_have_the_order_of_the_tasks_which_are_taken_as_workers_become_free() -> None:
    taken = []

    def tasks() -> Iterator[int]:
        for number in range(12):
            taken.append(number)
            yield number

    for done, (number, result) in enumerate(run_tasks(double, tasks(), 2)):
        assert (number, result) == (done, 2 * done) and len(taken) <= done + 4
    assert len(taken) == 12 and results([]) == []


def test_errors_of_a_worker_are_raised_here() -> None:
    with pytest.raises(ValueError, match="13: bad luck"):
        results([1, 13, -1])
    with pytest.raises(UserError) as caught:
        results([1, 99, 3])
    assert caught.value.key == "workers"


PARENT = """
import os, time
from nmt.system.processes import run_tasks

def wait(task):
    os.write(1, f"{os.getpid()}\\n".encode())
    time.sleep(1000)

if __name__ == "__main__":
    list(run_tasks(wait, range(4), 2))
"""


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="needs /proc")
@pytest.mark.parametrize("stop", [signal.SIGKILL, signal.SIGINT])
def test_workers_end_with_their_parent(tmp_path: Path, stop: int) -> None:
    (tmp_path / "parent.py").write_text(PARENT)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(tmp_path / "parent.py")]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as parent:
        assert parent.stdout is not None
        children = {int(parent.stdout.readline()) for _ in range(2)}
        assert len(children) == 2
        parent.send_signal(stop)
        parent.wait(timeout=30)
    wait_until(lambda: not any(Path(f"/proc/{child}").exists() for child in children))
