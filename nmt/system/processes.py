"""Run tasks in worker processes. The task of a worker that dies is repeated."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, NamedTuple, Protocol, TypeVar

from nmt.errors import UserError, print_message, reason

ATTEMPTS = 3
# A forked process would inherit the pipes of other processes, and locks of threads that it does not have.
SPAWN = multiprocessing.get_context("spawn")


class Task(Protocol):
    """A piece of work for one worker. It can be pickled."""

    @property
    def number(self) -> int:
        """Different for each task."""
        ...

    @property
    def label(self) -> str:
        """The task as messages name it, in the plural."""
        ...


AnyTask = TypeVar("AnyTask", bound=Task)
Job = Callable[[Any], Any]
"""Function from a task to its result, called in a worker. It can be pickled."""


class Failed(NamedTuple):
    """The reason why a worker has no result for a task."""

    reason: str
    final: bool = False
    """True if another attempt would fail in the same way."""


def attempt(job: Job, task: Task) -> Any:
    """Return the result of the job, or the reason why it failed. Workers call this, so that no error ends them."""
    try:
        return job(task)
    except UserError as error:
        return Failed(str(error), final=True)
    except Exception as error:
        return Failed(f"{type(error).__name__}: {reason(error)}")


class Workers(Protocol):
    """Workers that each do one task at a time: processes, or actors on other machines."""

    count: int

    def start(self, task: Any) -> None:
        """Give the task to a worker that has none. At most ``count`` tasks run at the same time."""
        ...

    def wait(self) -> list[tuple[int, Any]]:
        """Wait until tasks have ended, and return their numbers and results. A worker that died is replaced."""
        ...

    def dismiss(self) -> None:
        """End the workers that have no task."""
        ...

    def close(self) -> None:
        """End all workers at once."""
        ...


def run_tasks(tasks: Iterable[AnyTask], workers: Workers) -> Generator[tuple[AnyTask, Any]]:
    """Yield each task with its result, in the order in which they end. A task is taken only when a worker is free.

    A task that fails is given to another worker, up to ``ATTEMPTS`` times in total; then UserError is raised. The
    worker that replaces a dead one gets a new task if there is one: a worker that dies at its start, where it may load
    a model, must not use up the attempts of one task. An error of ``tasks`` is raised at once.
    """
    remaining = iter(tasks)
    again = deque[AnyTask]()
    running = dict[int, AnyTask]()
    failures = Counter[int]()
    replacements = 0  # workers to start in place of those that failed
    with closing(workers):
        while True:
            while len(running) < workers.count:
                task = None if again and not replacements else next(remaining, None)
                replacements = max(0, replacements - 1)
                if task is None and not again:
                    workers.dismiss()
                    break
                task = again.popleft() if task is None else task
                running[task.number] = task
                workers.start(task)
            if not running:
                return
            for number, result in workers.wait():
                task = running.pop(number)
                if not isinstance(result, Failed):
                    yield task, result
                    continue
                failures[number] += 1
                if result.final:
                    raise UserError(result.reason)
                if failures[number] == ATTEMPTS:
                    raise UserError(f"{task.label}: failed {ATTEMPTS} times ({result.reason}); give fewer workers=")
                print_message(f"warning: {task.label}: {result.reason}; trying them again")
                again.append(task)
                replacements += 1


@dataclass
class _Worker:
    process: BaseProcess
    connection: Connection
    task: Task | None = None


class ProcessWorkers:
    """Up to ``count`` processes on this machine (``Workers``), each started when it is first needed."""

    def __init__(self, job: Job, count: int) -> None:
        self.job, self.count = job, count
        self._workers: list[_Worker] = []

    def start(self, task: Task) -> None:
        worker = next((worker for worker in self._workers if worker.task is None), None) or self._new()
        worker.task = task
        with suppress(OSError):  # it died: ``wait`` finds out why
            worker.connection.send(task)

    def wait(self) -> list[tuple[int, Any]]:
        busy = {worker.connection: worker for worker in self._workers if worker.task is not None}
        ready = wait(list(busy))
        return [self._receive(worker) for connection, worker in busy.items() if connection in ready]

    def dismiss(self) -> None:
        self._end([worker for worker in self._workers if worker.task is None])

    def close(self) -> None:
        self._end(self._workers)

    def _new(self) -> _Worker:
        """Start a process. It never receives Ctrl-C, which reaches all processes: only this one reports it."""
        connection, other_end = SPAWN.Pipe()
        process = SPAWN.Process(target=_work, args=(other_end, self.job), daemon=True)
        with _blocked_interrupts():
            process.start()
        other_end.close()
        self._workers.append(_Worker(process, connection))
        return self._workers[-1]

    def _receive(self, worker: _Worker) -> tuple[int, Any]:
        assert worker.task is not None
        number, worker.task = worker.task.number, None
        try:
            result = worker.connection.recv()
        except (EOFError, OSError):
            worker.process.join(timeout=10)
            result = Failed(_cause(worker.process.exitcode))
            self._end([worker])
        return number, result

    def _end(self, workers: list[_Worker]) -> None:
        """End these processes. Files that they write are atomic, so nothing stays half-written."""
        for worker in workers:
            worker.process.kill()
        for worker in workers:
            worker.process.join()
            worker.process.close()
            worker.connection.close()
        self._workers = [worker for worker in self._workers if worker not in workers]


def _cause(exit_code: int | None) -> str:
    if exit_code == -getattr(signal, "SIGKILL", 9):
        return "their worker was killed, probably because memory ran out"
    return f"their worker ended with exit code {exit_code}"


def _work(connection: Connection, job: Job) -> None:
    """Answer every task that arrives with its result, until the connection is closed."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with suppress(EOFError, OSError):  # the parent has ended
        while True:
            connection.send(attempt(job, connection.recv()))


def _end_with_parent() -> None:
    """End this process when its parent ends, even if that was killed."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


@contextmanager
def _blocked_interrupts() -> Iterator[None]:
    """Block SIGINT during the block. Processes that start in it keep SIGINT blocked."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
