"""Run a function on many tasks in parallel processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar

from nmt.errors import UserError
from nmt.processes import start_process

Task = TypeVar("Task")
Result = TypeVar("Result")


def in_processes(function: Callable[[Task], Result], tasks: Iterable[Task], *, workers: int) -> Iterator[Result]:
    """Yield the result of each task, in the order in which they are ready.

    With one worker, this process does the work. A task is taken only when a process is idle, so that few are in memory.
    The processes end when this one does, also by ``kill -9``: then nobody writes into their pipes. Raises the first
    exception of a task, and UserError if a process is killed.
    """
    if workers == 1:
        yield from map(function, tasks)
        return
    remaining = iter(tasks)
    processes: list[BaseProcess] = []
    busy: dict[Connection, BaseProcess] = {}
    try:
        for _ in range(workers):
            if task := [*_take(remaining)]:
                process, pipe = start_process(_work, function)
                processes.append(process)
                busy[pipe] = process
                _send(task[0], pipe, process)
        while busy:
            for pipe in [pipe for ready in wait(list(busy)) for pipe in busy if pipe is ready]:
                yield _result(pipe, busy[pipe])
                if task := [*_take(remaining)]:
                    _send(task[0], pipe, busy[pipe])
                else:
                    del busy[pipe]
                    pipe.close()
    finally:
        for process in processes:
            process.terminate()
            process.join()


def _take(tasks: Iterator[Task]) -> Iterator[Task]:
    """Yield the next task, if there is another one."""
    with suppress(StopIteration):
        yield next(tasks)


def _send(task: Any, pipe: Connection, process: BaseProcess) -> None:
    """Send a task. Raises UserError if the process has ended."""
    try:
        pipe.send(task)
    except (BrokenPipeError, ConnectionResetError):
        raise _ended(process) from None


def _ended(process: BaseProcess) -> UserError:
    process.join()
    return UserError(
        f"workers: a process ended with exit code {process.exitcode}; if memory ran out (-9), lower workers"
    )


def _result(pipe: Connection, process: BaseProcess) -> Any:
    """Return the result that a process has sent. Raises its exception, or UserError if it ended."""
    try:
        succeeded, result = pipe.recv()
    except (EOFError, ConnectionResetError):
        raise _ended(process) from None
    if not succeeded:
        raise result
    return result


def _work(pipe: Connection, function: Callable[[Any], Any]) -> None:
    """Send the result of the function for each task that arrives, until the pipe is closed."""
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            task = pipe.recv()
            try:
                message = (True, function(task))
            except Exception as error:
                message = (False, error)
            pipe.send(message)
