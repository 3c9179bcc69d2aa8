"""The processes that torchrun or Slurm start to train one model, and what they exchange.

Each function also works in a single process.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from typing import Any, NamedTuple, TypeVar

import torch
from lightning_fabric.plugins.environments.cluster_environment import ClusterEnvironment
from lightning_fabric.plugins.environments.slurm import SLURMEnvironment
from lightning_fabric.plugins.environments.torchelastic import TorchElasticEnvironment
from torch import distributed

from nmt.errors import UserError
from nmt.training.settings import Train

INTERACTIVE = ("bash", "interactive")  # names of Slurm jobs in which people start programs by hand
T = TypeVar("T")


class Launch(NamedTuple):
    """What started this process as one of several: a name that stays at a restart, and the number of restarts."""

    identifier: str
    restarts: int


def detect_launch() -> Launch | None:
    """Return the launch of this process by torchrun or ``srun``, or None if neither started it.

    The commands of a batch script of Slurm are not started by ``srun``; they are one process each.
    """
    given = os.environ
    if "TORCHELASTIC_RUN_ID" in given:
        return Launch(f"torchrun {given['TORCHELASTIC_RUN_ID']}", int(given.get("TORCHELASTIC_RESTART_COUNT", 0)))
    if int(given.get("SLURM_STEP_NUM_TASKS", 1)) > 1 and given.get("SLURM_JOB_NAME") not in INTERACTIVE:
        return Launch(f"slurm {given.get('SLURM_JOB_ID')}", int(given.get("SLURM_RESTART_COUNT", 0)))
    return None


def environment() -> ClusterEnvironment | None:
    """Return Lightning's view of the processes, or None for a single one."""
    if detect_launch() is None:
        return None
    if "TORCHELASTIC_RUN_ID" in os.environ:
        return TorchElasticEnvironment()
    try:
        return SLURMEnvironment(auto_requeue=False)  # else Lightning requeues the job by itself
    except RuntimeError as error:  # of variables of srun that do not fit together
        raise UserError(f"SLURM_NTASKS_PER_NODE: {error}") from None


def is_first() -> bool:
    """Return whether this process is the one that writes files and messages: the only one, or rank 0."""
    return (launched := environment()) is None or launched.global_rank() == 0


def processes_per_node() -> int:
    """Return how many of the processes run on this machine."""
    return int(os.environ.get("LOCAL_WORLD_SIZE") or os.environ["SLURM_NTASKS_PER_NODE"])


def require_device(config: Train, launch: Launch | None) -> None:
    """Raise UserError if several processes would train on the one device that ``device`` names."""
    if launch is not None and ":" in config.device:
        raise UserError(f"device={config.device}: each process has its own device; set device=cuda")


@contextmanager
def connected_processes() -> Iterator[None]:
    """Connect the processes that torchrun or Slurm started, while the block runs. Only rank 0 prints messages.

    Errors of another rank name it. Without such processes, this does nothing.
    """
    launched = environment()
    if launched is None or world_size() > 1:
        yield
        return
    rank = launched.global_rank()
    if on_gpu := torch.cuda.is_available() and launched.local_rank() < torch.cuda.device_count():
        torch.cuda.set_device(launched.local_rank())
    os.environ |= {"MASTER_ADDR": launched.main_address, "MASTER_PORT": str(launched.main_port)}
    # gloo exchanges numbers and objects on the CPU.
    backend = "cpu:gloo,cuda:nccl" if on_gpu else "gloo"
    distributed.init_process_group(backend, rank=rank, world_size=launched.world_size())
    try:
        if rank == 0:
            yield
        else:
            with open(os.devnull, "w", encoding="utf-8") as null, redirect_stderr(null), redirect_stdout(null):
                yield
    except UserError as error:
        if rank == 0:
            raise
        raise UserError(*(f"process {rank}: {problem}" for problem in error.problems)) from None
    finally:
        with suppress(RuntimeError, ValueError):  # another process may have ended
            distributed.destroy_process_group()


def _is_connected() -> bool:
    return distributed.is_available() and distributed.is_initialized()


def rank() -> int:
    """Return the number of this process, from 0."""
    return distributed.get_rank() if _is_connected() else 0


def world_size() -> int:
    """Return the number of processes that train together."""
    return distributed.get_world_size() if _is_connected() else 1


def gather(value: T) -> list[T]:
    """Return the values of all ranks, in order."""
    if not _is_connected():
        return [value]
    values: list[Any] = [None] * world_size()
    distributed.all_gather_object(values, value)
    return values


def sums(numbers: Sequence[float]) -> list[float]:
    """Return the sum over all ranks of each number."""
    if not _is_connected():
        return list(numbers)
    total = torch.tensor(numbers, dtype=torch.float64)
    distributed.all_reduce(total)
    values: list[float] = total.tolist()
    return values


def from_first(compute: Callable[[], T]) -> T:
    """Call ``compute`` on rank 0 and return its result on all ranks. If it fails, the others end without a message."""
    message: list[Any] = [None]
    try:
        if rank() == 0:
            message = [(compute(),)]
    finally:
        if _is_connected():
            distributed.broadcast_object_list(message)
    if message[0] is None:
        raise SystemExit(2)
    result: T = message[0][0]
    return result
