"""Run tasks in worker processes."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from nmt.errors import UserError

if TYPE_CHECKING:
    from concurrent.futures import Future

Task = TypeVar("Task")
Result = TypeVar("Result")
_job: list[Callable[[Any], Any]] = []  # of this worker


def run_tasks(
    job: Callable[[Task], Result], tasks: Iterable[Task], workers: int
) -> Generator[tuple[Task, Result], None, None]:
    """Yield each task with the result of ``job``, in order. Tasks are taken as workers become free.

    One worker is this process; for others, the job, the tasks and their results are pickled. Errors of the job and of
    ``tasks`` are raised. If a worker is killed, for example because memory ran out, UserError is raised. At the end,
    all workers are killed, so whatever a job writes must be atomic.
    """
    if workers == 1:
        yield from ((task, job(task)) for task in tasks)
        return
    from concurrent.futures import ProcessPoolExecutor  # the first line of other commands must not wait for it
    from concurrent.futures.process import BrokenProcessPool

    # A forked process would inherit locks of threads that it does not have.
    pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _start, (job,))
    remaining = iter(tasks)
    pending: deque[tuple[Task, Future[Result]]] = deque()
    try:
        while True:
            for task in islice(remaining, 2 * workers - len(pending)):
                with _blocked_interrupts():
                    pending.append((task, pool.submit(_run, task)))
            if not pending:
                return
            task, future = pending.popleft()
            yield task, future.result()
    except BrokenProcessPool:
        raise UserError(f"workers={workers}: a worker was killed, maybe because memory ran out; give fewer") from None
    finally:
        processes = [*(pool._processes or {}).values()]
        pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.kill()


def _start(job: Callable[[Any], Any]) -> None:
    """Keep the job of this worker, which ends when its parent ends, even if that is killed."""
    _job[:] = [job]
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _run(task: Any) -> Any:
    return _job[0](task)


@contextmanager
def _blocked_interrupts() -> Iterator[None]:
    """Block SIGINT: workers that start in the block never get Ctrl-C, which reaches all processes of a terminal."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
