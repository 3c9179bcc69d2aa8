"""benchmarks/run_queue.py runs jobs in order, stops them cleanly, and continues after it was stopped or killed."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from commands.processes import wait_until

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "run_queue.py"
pytestmark = [pytest.mark.thorough, pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")]

# Appends the numbers from 0 to COUNT - 1 to a file, continues where it stopped, and ends after a whole line.
JOB = """
import os, signal, sys, time
from pathlib import Path
file, count = Path(sys.argv[1]), int(sys.argv[2])
stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
done = file.read_text().count("\\n") if file.exists() else 0
for number in range(done, count):
    if stop:
        sys.exit(143)
    with file.open("a") as out:
        out.write(f"{number}\\n")
    time.sleep(0.02)
"""


class Queue:
    """A list of jobs in an empty folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "job.py").write_text(JOB)
        self.jobs: list[dict[str, object]] = []
        self.words = ["--list", str(folder / "list.yaml"), "--folder", str(folder / "queue")]

    def add(self, name: str, *, count: int = 3, priority: int = 1, command: str | None = None) -> None:
        command = command or f"python {self.folder / 'job.py'} {self.folder / name} {count}"
        self.jobs.append({"name": name, "command": command, "minutes": 1, "priority": priority})
        (self.folder / "list.yaml").write_text(yaml.safe_dump(self.jobs))

    def start(self) -> subprocess.Popen[str]:
        return subprocess.Popen([sys.executable, str(SCRIPT), "run", *self.words], stdout=subprocess.DEVNULL, text=True)

    def call(self, action: str) -> str:
        words = [sys.executable, str(SCRIPT), action, *self.words]
        return subprocess.run(words, capture_output=True, text=True, timeout=60, check=True).stdout

    def lines(self, name: str) -> int:
        file = self.folder / name
        return file.read_text().count("\n") if file.exists() else 0

    def assert_complete(self, name: str, count: int) -> None:
        """Assert that the job did all its work once, as one that nobody stopped."""
        assert (self.folder / name).read_text() == "".join(f"{number}\n" for number in range(count))

    def log(self) -> list[tuple[str, str]]:
        with (self.folder / "queue" / "log.csv").open(newline="") as file:
            return [(row["job"], row["result"]) for row in csv.DictReader(file)]


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[Queue]:
    yield Queue(tmp_path)


def test_jobs_run_by_priority_and_then_in_the_order_of_the_list(queue: Queue) -> None:
    queue.add("last", priority=3)
    queue.add("first")
    queue.add("broken", priority=2, command="python -c 1/0")
    queue.add("second")
    queue.call("run")
    expected = [("first", "finished"), ("second", "finished")]
    assert queue.log() == [*expected, ("broken", "failed with exit code 1"), ("last", "finished")]
    assert "ZeroDivisionError" in (queue.folder / "queue" / "broken.log").read_text()
    queue.call("run")  # tries the failed job again, and no other
    assert queue.log()[4:] == [("broken", "failed with exit code 1")]
    status = queue.call("status")
    assert [line.split()[1] for line in status.splitlines()[:-1]] == ["first", "second", "broken", "last"]
    assert "no queue runs; expected for the jobs that have not finished: 1 minutes" in status


def test_paused_job_leaves_the_cores_and_continues(queue: Queue) -> None:
    queue.add("long", count=150)
    queue.add("next")
    process = queue.start()
    wait_until(lambda: queue.lines("long") > 3)
    queue.call("pause")
    stopped = queue.lines("long")
    assert stopped < 150
    time.sleep(0.5)
    assert queue.lines("long") == stopped and process.poll() is None
    assert "paused" in queue.call("status")
    queue.call("continue")
    assert process.wait(60) == 0
    queue.assert_complete("long", 150)
    assert queue.log() == [("long", "stopped"), ("long", "finished"), ("next", "finished")]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_stopped_or_killed_queue_continues(queue: Queue, number: int) -> None:
    queue.add("long", count=150)
    process = queue.start()
    wait_until(lambda: queue.lines("long") > 3)
    second = subprocess.run([sys.executable, str(SCRIPT), "run", *queue.words], capture_output=True, text=True)
    assert second.returncode == 1 and "another queue is running" in second.stderr
    os.kill(process.pid, number)
    process.wait(60)
    queue.call("run")  # stops the job of a killed queue first: two at the same time would write lines twice
    queue.assert_complete("long", 150)
    assert queue.log() == [("long", "stopped")] * (number == signal.SIGINT) + [("long", "finished")]


def test_the_list_of_the_project_is_right() -> None:
    for job in yaml.safe_load(SCRIPT.with_suffix(".yaml").read_text()):
        module = str(job["command"]).split()[2]
        assert SCRIPT.parents[1].joinpath(*module.split(".")).with_suffix(".py").is_file(), job["name"]
