"""The processes that train one model together, and what they agree on besides gradients.

Each function also works in a single process, which has nobody to agree with. Then it does not import torch.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from typing import Any, TypeVar

from nmt.errors import UserError
from nmt.training.launch import Launch, detect_launch

T = TypeVar("T")
WAIT = datetime.timedelta(days=7)  # rank 0 may prepare text for hours while the others wait
LOST = ("gloo", "nccl", "connection", "socket", "recv", "timed out")  # in errors that mean that a process is gone

_launch: Launch | None = None
_group: Any = None  # of gloo, also beside NCCL: it exchanges numbers and objects on the CPU


class FirstRankFailed(SystemExit):
    """Ends the other processes where rank 0 failed, without a message: rank 0 prints one."""


@contextmanager
def connected_processes() -> Iterator[None]:
    """Connect the processes that torchrun or Slurm started, while the block runs. Only rank 0 prints messages.

    Errors of another rank name it. Without such processes, this does nothing.
    """
    launch = detect_launch()
    if launch is None or _launch is not None:
        yield
        return
    try:
        _connect(launch)
        if launch.rank == 0:
            yield
        else:
            with open(os.devnull, "w", encoding="utf-8") as null, redirect_stderr(null), redirect_stdout(null):
                yield
    except UserError as error:
        if launch.rank == 0:
            raise
        first, *others = error.problems
        raise UserError(f"process {launch.rank}: {first}", *others) from None
    except RuntimeError as error:
        if not any(word in str(error).lower() for word in LOST):
            raise
        raise UserError(
            f"process {launch.rank}: another process of this run ended; "
            "continue from the last checkpoint with resume=true"
        ) from error
    finally:
        _disconnect()


def _connect(launch: Launch) -> None:
    global _launch, _group
    from lightning_fabric.plugins.environments.slurm import SLURMEnvironment
    from torch import cuda, distributed
    from torch.distributed.distributed_c10d import PrefixStore
    from torch.distributed.rendezvous import rendezvous

    if launch.launcher == "srun":
        environment = SLURMEnvironment(auto_requeue=False)
        os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = environment.main_address, str(environment.main_port)
    on_gpu = cuda.is_available() and launch.local_rank < cuda.device_count()
    if on_gpu:
        cuda.set_device(launch.local_rank)
    backend = "cpu:gloo,cuda:nccl" if on_gpu else "gloo"
    store, *_ = next(rendezvous("env://", rank=launch.rank, world_size=launch.world_size))
    # torchrun keeps its store when it restarts the processes, and with it the addresses of those that ended.
    store = PrefixStore(f"attempt {launch.restarts}", store)
    distributed.init_process_group(backend, store=store, rank=launch.rank, world_size=launch.world_size)
    _group = distributed.new_group(backend="gloo", timeout=WAIT)
    _launch = launch


def _disconnect() -> None:
    global _launch, _group
    from torch import distributed

    _launch = _group = None
    with suppress(RuntimeError, ValueError):  # a process that is gone cannot say goodbye
        distributed.destroy_process_group()


def current_launch() -> Launch | None:
    """Return how the connected processes were started, or None for a single process."""
    return _launch


def rank() -> int:
    """Return the number of this process, from 0."""
    return 0 if _launch is None else _launch.rank


def world_size() -> int:
    """Return the number of processes that train together."""
    return 1 if _launch is None else _launch.world_size


def gather(value: T) -> list[T]:
    """Return the values of all ranks, in order."""
    if _launch is None:
        return [value]
    from torch import distributed

    values: list[Any] = [None] * _launch.world_size
    distributed.all_gather_object(values, value, group=_group)
    return values


def sums(numbers: Sequence[float]) -> list[float]:
    """Return the sum over all ranks of each number."""
    if _launch is None:
        return list(numbers)
    import torch
    from torch import distributed

    total = torch.tensor(numbers, dtype=torch.float64)
    distributed.all_reduce(total, group=_group)
    values: list[float] = total.tolist()
    return values


def from_first(compute: Callable[[], T]) -> T:
    """Return what ``compute`` returns on rank 0, which alone calls it. Raises FirstRankFailed elsewhere if it fails."""
    if _launch is None:
        return compute()
    message: list[Any] = [None]
    if _launch.rank == 0:
        try:
            message = [(True, compute())]
        except BaseException:
            _broadcast([(False, None)])
            raise
    _broadcast(message)
    succeeded, value = message[0]
    if not succeeded:
        raise FirstRankFailed(2)
    result: T = value
    return result


@contextmanager
def first_before_others() -> Iterator[None]:
    """Run the block on rank 0, and then on the others. They raise FirstRankFailed if it failed there."""
    if rank() != 0:
        from_first(lambda: None)
        yield
        return
    try:
        yield
    except BaseException:
        if _launch is not None:
            _broadcast([(False, None)])
        raise
    from_first(lambda: None)


def _broadcast(message: list[Any]) -> None:
    from torch import distributed

    distributed.broadcast_object_list(message, src=0, group=_group)
