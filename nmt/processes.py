"""Start a process that works for this one."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

# A forked process would inherit the pipes of other processes, and locks of threads that it does not have.
SPAWN = multiprocessing.get_context("spawn")


def start_process(work: Callable[[Connection, Any], None], argument: Any) -> tuple[BaseProcess, Connection]:
    """Start a process that calls ``work`` with its end of a pipe and the argument; return it and the other end.

    The process never receives Ctrl-C, which reaches all processes: only its parent reports it, and ends the others.
    """
    own_end, other_end = SPAWN.Pipe()
    process = SPAWN.Process(target=work, args=(other_end, argument), daemon=True)
    with _blocked_interrupts():
        process.start()
    other_end.close()
    return process, own_end


@contextmanager
def _blocked_interrupts() -> Iterator[None]:
    """Block SIGINT during the block. Processes that start there keep it blocked."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
