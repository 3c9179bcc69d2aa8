"""Workers that are actors of Ray, on this machine or on a cluster."""

from __future__ import annotations

import socket
from importlib import import_module
from typing import Any

from nmt.errors import UserError, reason
from nmt.system.processes import Failed, Job, Task, attempt

ANSWER_S = 10


class ShardActor:
    """Holds the job, and with it the model, in a process of Ray."""

    def __init__(self, job: Job) -> None:
        self.job = job

    def run(self, task: Task) -> Any:
        """Return the result of the task."""
        return attempt(self.job, task)


class RayWorkers:
    """Up to ``count`` actors (``nmt.system.processes.Workers``) with ``threads`` CPUs each.

    ``address`` is that of a cluster; None starts Ray on this machine. A process that is connected to Ray keeps its
    connection. Raises UserError if Ray is not installed, or if no cluster answers at the address.
    """

    def __init__(self, job: Job, count: int, *, threads: int, address: str | None) -> None:
        self.count = count
        self._job = job
        self._ray, self._connected = _connect(address)
        self._actor = self._ray.remote(num_cpus=threads, max_restarts=0)(ShardActor)
        self._idle: list[Any] = []
        self._running: dict[Any, tuple[int, Any]] = {}
        cpus = int(self._ray.cluster_resources().get("CPU", 0))
        if cpus < threads:
            self.close()
            raise UserError(f"threads={threads}: more than the {cpus} CPUs of the cluster; give threads={cpus or 1}")

    def start(self, task: Task) -> None:
        actor = self._idle.pop() if self._idle else self._actor.remote(self._job)
        self._running[actor.run.remote(task)] = (task.number, actor)

    def wait(self) -> list[tuple[int, Any]]:
        ended, _ = self._ray.wait(list(self._running), num_returns=1)
        return [self._receive(reference) for reference in ended]

    def dismiss(self) -> None:
        while self._idle:  # their CPUs are free for actors that wait for some
            self._ray.kill(self._idle.pop())

    def close(self) -> None:
        actors = [*self._idle, *(actor for _, actor in self._running.values())]
        self._idle = []
        self._running = {}
        for actor in actors:
            self._ray.kill(actor)
        if self._connected:
            self._ray.shutdown()

    def _receive(self, reference: Any) -> tuple[int, Any]:
        number, actor = self._running.pop(reference)
        try:
            result = self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            return number, Failed(f"their actor ended ({reason(error)})")
        self._idle.append(actor)
        return number, result


def _connect(address: str | None) -> tuple[Any, bool]:
    """Return the package ray, connected, and whether this call has connected it."""
    try:
        ray: Any = import_module("ray")
    except ModuleNotFoundError:
        fix = "pip install nmt-memory-attention[ray]"
        raise UserError(f"cluster=ray: the package ray is not installed; install it with {fix}") from None
    if ray.is_initialized():
        return ray, False
    if address is not None:
        _require_answer(address)
    started: dict[str, Any] = {} if address else {"include_dashboard": False}
    try:
        ray.init(address=address or "local", log_to_driver=False, logging_level="error", **started)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise _no_cluster(address, error) from None
    return ray, True


def _require_answer(address: str) -> None:
    """Raise UserError if nothing listens at an address with a port. Ray itself would try for five minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal():
        return  # such as auto
    try:
        socket.create_connection((host, int(port)), timeout=ANSWER_S).close()
    except (OSError, OverflowError) as error:
        raise _no_cluster(address, error) from None


def _no_cluster(address: str | None, error: Exception) -> UserError:
    return UserError(f"address={address}: no Ray cluster ({reason(error)}); start one with ray start --head")
