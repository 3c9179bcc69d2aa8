"""Workers that are processes on this machine."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from nmt.inference.shards.shard import Done, Failed, Job, Shard, attempt
from nmt.processes import start_process


@dataclass
class _Worker:
    process: BaseProcess
    connection: Connection
    shard: Shard | None = None


class ProcessWorkers:
    """Up to ``count`` processes (``nmt.inference.shards.schedule.Workers``), each started when it is first needed."""

    def __init__(self, job: Job, count: int) -> None:
        self.job, self.count = job, count
        self._workers: list[_Worker] = []

    def start(self, shard: Shard) -> None:
        worker = next((worker for worker in self._workers if worker.shard is None), None) or self._new()
        worker.shard = shard
        with suppress(OSError):  # it died: ``wait`` finds out why
            worker.connection.send(shard)

    def wait(self) -> list[tuple[int, Done | Failed]]:
        busy = {worker.connection: worker for worker in self._workers if worker.shard is not None}
        ready = wait(list(busy))
        return [self._receive(worker) for connection, worker in busy.items() if connection in ready]

    def dismiss(self) -> None:
        self._end([worker for worker in self._workers if worker.shard is None])

    def close(self) -> None:
        self._end(self._workers)

    def _new(self) -> _Worker:
        self._workers.append(_Worker(*start_process(_work, self.job)))
        return self._workers[-1]

    def _receive(self, worker: _Worker) -> tuple[int, Done | Failed]:
        assert worker.shard is not None
        number, worker.shard = worker.shard.number, None
        try:
            result: Done | Failed = worker.connection.recv()
        except (EOFError, OSError):
            worker.process.join(timeout=10)
            result = Failed(_cause(worker.process.exitcode))
            self._end([worker])
        return number, result

    def _end(self, workers: list[_Worker]) -> None:
        """End these processes. They write nothing, so nothing stays half-written."""
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
    """Answer every shard that arrives with its result, until the connection is closed."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    while True:
        try:
            shard = connection.recv()
        except EOFError:
            return
        connection.send(attempt(job, shard))


def _end_with_parent() -> None:
    """End this process when its parent ends, even if that was killed."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
