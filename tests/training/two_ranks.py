"""Two processes that train together as under torchrun, and what each of them records."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import signal
import socket
import sys
import traceback
from pathlib import Path
from typing import Any

import pytest
import torch
from builders import call_before
from saved_time import SERVER
from tiny import NO_REPORT, weights_of

from nmt.commands.train import train
from nmt.errors import UserError
from nmt.training import run
from nmt.training.checkpoints import Checkpoints
from nmt.training.task import TranslationTask

TIMEOUT_S = 400  # after which the two processes certainly wait for each other
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def torchrun_environment(rank: int, world_size: int, port: int, *, restarts: int = 0) -> dict[str, str]:
    """Return the variables that torchrun sets on one machine."""
    numbers = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": world_size, "LOCAL_WORLD_SIZE": world_size}
    numbers |= {"GROUP_RANK": 0, "MASTER_PORT": port, "TORCHELASTIC_RESTART_COUNT": restarts}
    texts = {name: str(number) for name, number in numbers.items()}
    return texts | {"MASTER_ADDR": "127.0.0.1", "TORCHELASTIC_RUN_ID": "test"}


def train_on_two_ranks(jobs: list[list[str]], *, stop_at: dict[str, int], rank_to_stop: int) -> list[dict[str, Any]]:
    """Run the jobs, one after the other, on two processes in the current folder. Return the records of each rank.

    A job is a list of arguments of nmt-train. The job of the name in ``stop_at`` is stopped: one rank alone receives
    SIGTERM during that update. Before one is resumed, ``runs/stopped`` is copied to ``runs/alone``.
    """
    ports = [_free_port() for _ in jobs]
    children = [
        SERVER.Process(target=_child, args=(rank, jobs, ports, stop_at if rank == rank_to_stop else {}, Path.cwd()))
        for rank in range(2)
    ]
    for child in children:
        child.start()
    for child in children:
        child.join(TIMEOUT_S)
    waiting = [child for child in children if child.is_alive()]
    for child in waiting:
        child.kill()
    assert not waiting, f"{len(waiting)} of 2 processes still run after {TIMEOUT_S} s: they wait for each other"
    records = [torch.load(f"rank-{rank}.pt", weights_only=False) for rank in range(2)]
    assert [record["error"] for record in records] == [None, None]
    return records


def _free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port: int = server.getsockname()[1]
        return port


def _child(rank: int, jobs: list[list[str]], ports: list[int], stop_at: dict[str, int], folder: Path) -> None:
    os.chdir(folder)
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    record: dict[str, Any] = {"error": None, "jobs": [], "written": [], "printed": ""}
    output = io.StringIO()
    sys.addaudithook(lambda event, values: _record_write(event, values, folder / "runs", record["written"]))
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            for words, port in zip(jobs, ports, strict=True):
                os.environ.update(torchrun_environment(rank, 2, port))
                if rank == 0 and "resume=true" in words:
                    shutil.copytree("runs/stopped", "runs/alone")
                record["jobs"].append(_train(words, stop_at))
    except BaseException:
        record["error"] = traceback.format_exc()
    record["printed"] = output.getvalue()
    torch.save(record, folder / f"rank-{rank}.pt")


def _record_write(event: str, values: tuple[Any, ...], folder: Path, written: list[str]) -> None:
    writes = event in ("os.mkdir", "os.rename", "os.remove", "shutil.rmtree")
    if event == "open" and isinstance(values[0], str | bytes | os.PathLike):
        writes = isinstance(values[2], int) and bool(values[2] & WRITES)
    if writes and Path(os.fsdecode(values[0])).absolute().is_relative_to(folder):
        written.append(f"{event} {values[0]}")


def _train(words: list[str], stop_at: dict[str, int]) -> dict[str, Any]:
    """Train, and return batches, weights, gradients, validations and the error of this rank."""
    job: dict[str, Any] = {"rows": [], "weights": [], "gradients": [], "validations": [], "best": "", "error": None}
    stop = next((stop_at[word] for word in words if word in stop_at), None)

    def keep_batch(task: TranslationTask, batch: Any, index: int) -> None:
        job["rows"].append((task.current_epoch, batch.index.tolist()))
        job["weights"].append(weights_of(task))
        if task.global_step == stop:
            signal.raise_signal(signal.SIGTERM)

    def keep_gradients(self: TranslationTask, optimizer: Any) -> None:
        job["gradients"].append({name: weight.grad.clone() for name, weight in self.model.named_parameters()})

    def keep_scores(self: Checkpoints, trainer: Any, task: Any) -> None:
        metrics = {name: float(value) for name, value in trainer.callback_metrics.items() if name.startswith("valid")}
        job["validations"].append((metrics, weights_of(task)))
        job["best"] = self.best_model_path

    with pytest.MonkeyPatch.context() as patch:
        call_before(patch, TranslationTask, "training_step", keep_batch)
        patch.setattr(TranslationTask, "on_before_optimizer_step", keep_gradients)
        call_before(patch, Checkpoints, "on_train_epoch_end", keep_scores)
        patch.setattr(run, "report", lambda *_: NO_REPORT)
        try:
            train(words)
        except (KeyboardInterrupt, UserError) as error:
            job["error"] = type(error).__name__
    return job
