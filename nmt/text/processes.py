"""Run a function on many tasks in parallel processes."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar

from nmt.errors import UserError

Task = TypeVar("Task")
Result = TypeVar("Result")
CONTEXT = multiprocessing.get_context("spawn")  # a forked process would inherit the other processes' pipes


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
                pipe, process = _start(function)
                processes.append(process)
                busy[pipe] = process
                pipe.send(task[0])
        while busy:
            for pipe in [pipe for ready in wait(list(busy)) for pipe in busy if pipe is ready]:
                yield _result(pipe, busy[pipe])
                if task := [*_take(remaining)]:
                    pipe.send(task[0])
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


def _start(function: Callable[[Any], Any]) -> tuple[Connection, BaseProcess]:
    own_end, other_end = CONTEXT.Pipe()
    process = CONTEXT.Process(target=_work, args=(other_end, function), daemon=True)
    with _blocked(signal.SIGINT):  # Ctrl-C reaches all processes; only the first one reports it, and ends the others
        process.start()
    other_end.close()
    return own_end, process


@contextmanager
def _blocked(signal_number: signal.Signals) -> Iterator[None]:
    """Block a signal during the block; processes that start there never receive it."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    previous = signal.pthread_sigmask(signal.SIG_BLOCK, [signal_number])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous)


def _result(pipe: Connection, process: BaseProcess) -> Any:
    """Return the result that a process has sent. Raises its exception, or UserError if it ended."""
    try:
        succeeded, result = pipe.recv()
    except (EOFError, ConnectionResetError):
        process.join()
        raise UserError(
            f"workers: a process ended with exit code {process.exitcode}; if memory ran out (-9), lower workers"
        ) from None
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
