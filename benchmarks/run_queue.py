"""Run long benchmarks one after the other, in the order of their priority, and continue where the queue stopped.

The list is benchmarks/run_queue.yaml: name, command, expected minutes and priority of each job; priority 1 runs first.
Every command must continue its own work when it is started again, as all scripts in this folder do.

    python -m benchmarks.run_queue run        start, or go on after a stop; failed jobs are tried again
    python -m benchmarks.run_queue pause      stop the training that runs; it continues later with its next update
    python -m benchmarks.run_queue continue   go on after a pause
    python -m benchmarks.run_queue status     what has run, what each run cost, and what is left

Ctrl-C in `run` also stops the training cleanly. The cost of every session is in runs/queue/log.csv.
"""

from __future__ import annotations

import argparse
import csv
import fcntl
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, NamedTuple

import yaml

ROOT = Path(__file__).resolve().parents[1]
MARK = "NMT_QUEUE_JOB"  # environment variable that all processes of a job inherit
COLUMNS = ("job", "started", "minutes", "result", "command")
FINISHED, STOPPED = "finished", "stopped"


class Job(NamedTuple):
    """One entry of the list."""

    name: str
    command: str
    minutes: float
    priority: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("run", "status", "pause", "continue"))
    parser.add_argument("--list", type=Path, default=Path(__file__).with_suffix(".yaml"), help="default: %(default)s")
    parser.add_argument("--folder", type=Path, default=Path("runs/queue"), help="logs; default: %(default)s")
    args = parser.parse_args()
    queue = Queue(args.folder, read_list(args.list))
    if args.action == "run":
        queue.run()
    elif args.action == "status":
        print("\n".join(queue.status()))
    elif args.action == "pause":
        queue.pause()
    else:
        queue.pause_file.unlink(missing_ok=True)
        print("the queue goes on" if queue.running() else "no queue runs; start it with `run`")


def read_list(file: Path) -> list[Job]:
    """Return the jobs by priority; jobs of one priority keep their order. Exits with one line if the list is wrong."""
    try:
        entries = yaml.safe_load(file.read_text(encoding="utf-8"))
        jobs = [Job(**entry) for entry in entries]
        known = all(
            isinstance(job.name, str)
            and job.name.replace("-", "").isalnum()
            and shlex.split(job.command)
            and isinstance(job.minutes, int | float)
            and isinstance(job.priority, int)
            for job in jobs
        )
    except (OSError, TypeError, ValueError, AttributeError, yaml.YAMLError) as error:
        sys.exit(f"{file}: {' '.join(str(error).split())}; each job needs name, command, minutes and priority")
    names = [job.name for job in jobs]
    if not known or len(set(names)) < len(names):
        sys.exit(f"{file}: each job needs its own name (letters, digits, -), a command, minutes and priority")
    return sorted(jobs, key=lambda job: job.priority)


class Queue:
    """The jobs, and the folder with the log of their sessions and with their output."""

    def __init__(self, folder: Path, jobs: Sequence[Job]) -> None:
        self.folder, self.jobs = folder, jobs
        self.folder.mkdir(parents=True, exist_ok=True)
        self.log, self.pause_file = folder / "log.csv", folder / "paused"
        self.stopping = False

    def run(self) -> None:
        """Run all jobs that have not finished. Ctrl-C and SIGTERM stop the current one and then the queue."""
        with self._lock() as lock:
            if lock is None:
                sys.exit(f"{self.folder}: another queue is running there; use `status` or another --folder")
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, self._stop)
            stop_processes(self._mark())  # of a queue that was killed
            failed: set[str] = set()
            self._wait_while_paused()
            while not self.stopping and (job := self._next(failed)) is not None:
                result = self._session(job)
                if result not in (FINISHED, STOPPED):
                    failed.add(job.name)
                self._wait_while_paused()
            print("stopped; `run` continues" if self.stopping else "\n".join(self.status()))

    def pause(self) -> None:
        """Ask the running queue to stop its current job, and wait until no process of it is left."""
        self.pause_file.touch()
        while processes(self._mark()):
            time.sleep(0.1)
        print("paused; `continue` goes on")

    def status(self) -> Iterator[str]:
        """Yield one line per job: what it has cost, and whether it has finished."""
        sessions = self.sessions()
        for job in self.jobs:
            own = [row for row in sessions if row["job"] == job.name]
            spent = sum(float(row["minutes"]) for row in own)
            state = own[-1]["result"] if own else "not run"
            yield f"{job.priority}  {job.name:24} {spent:8.1f} of {job.minutes:g} expected minutes  {state}"
        state = ("paused" if self.pause_file.exists() else "running") if self.running() else "no queue runs"
        done = {row["job"] for row in sessions if row["result"] == FINISHED}
        left = sum(job.minutes for job in self.jobs if job.name not in done)
        yield f"{state}; expected for the jobs that have not finished: {left:g} minutes"

    def sessions(self) -> list[dict[str, str]]:
        """Return the rows of the log."""
        if not self.log.is_file():
            return []
        with self.log.open(newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def running(self) -> bool:
        """Return whether a queue runs in this folder."""
        with self._lock() as lock:
            return lock is None

    def _next(self, failed: set[str]) -> Job | None:
        done = {(row["job"], row["command"]) for row in self.sessions() if row["result"] == FINISHED}
        jobs = (job for job in self.jobs if (job.name, job.command) not in done and job.name not in failed)
        return next(jobs, None)

    def _session(self, job: Job) -> str:
        """Run the job until it ends or the queue is asked to stop or pause. Log the session and return its result."""
        words = shlex.split(job.command)
        words[0] = sys.executable if words[0] == "python" else words[0]
        started, clock = datetime.now(UTC), time.perf_counter()
        print(f"{started:%H:%M} {job.name}: {job.command}", flush=True)
        with (self.folder / f"{job.name}.log").open("ab") as output:
            environment = {**os.environ, MARK: self._mark()}
            process = subprocess.Popen(
                words, cwd=ROOT, env=environment, stdout=output, stderr=output, start_new_session=True
            )
            while process.poll() is None and not self._must_stop():
                time.sleep(0.1)
            asked = process.poll() is None
            if asked:
                stop_processes(self._mark())
            code = process.wait()
        result = STOPPED if asked and code else FINISHED if code == 0 else f"failed with exit code {code}"
        minutes = (time.perf_counter() - clock) / 60
        self._record((job.name, f"{started:%Y-%m-%d %H:%M}", f"{minutes:.2f}", result, job.command))
        print(f"{datetime.now(UTC):%H:%M} {job.name}: {result} after {minutes:.1f} minutes", flush=True)
        return result

    def _record(self, row: Sequence[str]) -> None:
        new = not self.log.is_file()
        with self.log.open("a", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows([*([COLUMNS] if new else []), row])

    def _must_stop(self) -> bool:
        return self.stopping or self.pause_file.exists()

    def _wait_while_paused(self) -> None:
        if self.pause_file.exists():
            print("paused; `continue` goes on", flush=True)
        while self.pause_file.exists() and not self.stopping:
            time.sleep(0.1)

    def _stop(self, *_: Any) -> None:
        self.stopping = True

    def _mark(self) -> str:
        return str(self.folder.resolve())

    def _lock(self) -> Lock:
        return Lock(self.folder / "lock")


class Lock:
    """A context that is None if another process holds the file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> IO[str] | None:
        self.file = self.path.open("w")
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return None
        return self.file

    def __exit__(self, *_: object) -> None:
        self.file.close()


def processes(mark: str) -> list[int]:
    """Return the numbers of all processes with this mark in their environment. Linux only."""
    numbers, entry = [], f"{MARK}={mark}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            marked = entry in (folder / "environ").read_bytes().split(b"\0")
        except OSError:  # it has ended, or belongs to another user
            continue
        if marked:  # an ended process that nobody has waited for has no environment
            numbers.append(int(folder.name))
    return numbers


def stop_processes(mark: str) -> None:
    """Send SIGTERM to all processes with this mark, and wait until they have ended."""
    asked: set[int] = set()
    while remaining := processes(mark):
        for number in set(remaining) - asked:
            try:
                os.kill(number, signal.SIGTERM)
            except ProcessLookupError:
                continue
            asked.add(number)
        time.sleep(0.1)


if __name__ == "__main__":
    main()
