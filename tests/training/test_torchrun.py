"""torchrun starts two processes, one of them is killed, and training continues from the last checkpoint."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from builders import expect_error
from tiny import SMALL, same_model
from two_ranks import torchrun_environment

from nmt.config.compose import train_config
from nmt.config.runs import LAUNCH_FILE, restarted_arguments
from nmt.errors import UserError
from nmt.files.atomic import lock_folder
from nmt.training import distributed as ranks
from nmt.training.checkpoints import BestCheckpoints, LastCheckpoint, Stopped
from nmt.training.distributed import detect_launch, require_device

SRUN = {"SLURM_STEP_NUM_TASKS": "8", "SLURM_NTASKS": "8", "SLURM_NTASKS_PER_NODE": "4", "SLURM_JOB_ID": "7"}
SRUN |= {"SLURM_PROCID": "5", "SLURM_LOCALID": "1", "SLURM_RESTART_COUNT": "2", "SLURM_JOB_NAME": "translate"}


BATCH_SCRIPT = {name: value for name, value in SRUN.items() if name != "SLURM_STEP_NUM_TASKS"}


@pytest.mark.parametrize(
    ("environment", "launch"),
    [
        ({}, None),
        (BATCH_SCRIPT, None),
        ({**SRUN, "SLURM_JOB_NAME": "interactive"}, None),
        (SRUN, {"rank": 5, "world_size": 8, "local_rank": 1, "nodes": 2, "restarts": 2}),
        (torchrun_environment(1, 2, 29500), {"rank": 1, "world_size": 2, "local_rank": 1, "nodes": 1, "restarts": 0}),
    ],
)
def test_launchers_are_recognised(environment: dict[str, str], launch: dict[str, int] | None) -> None:
    detected = detect_launch(environment)
    assert launch == (detected and {name: getattr(detected, name) for name in launch or {}})


def test_numbers_of_srun_that_do_not_fit_are_rejected() -> None:
    expect_error(
        "^SLURM_NTASKS=2: not a multiple of SLURM_NTASKS_PER_NODE=4; give srun",
        detect_launch,
        {**SRUN, "SLURM_NTASKS": "2"},
    )
    with pytest.raises(UserError, match="SLURM_NTASKS_PER_NODE: not set; give --ntasks-per-node"):
        detect_launch({name: value for name, value in SRUN.items() if name != "SLURM_NTASKS_PER_NODE"})


def test_one_device_for_several_processes_is_rejected() -> None:
    launch = detect_launch(SRUN)
    with pytest.raises(UserError, match="^device=cuda:1: each process has its own device; set device=cuda"):
        require_device(train_config(["device=cuda:1"]), launch)
    require_device(train_config(["device=cuda"]), launch)
    require_device(train_config(["device=cuda:1"]), None)


def leave_run(folder: Path, launcher: str, *, age: int = 0, files: Sequence[str] = ("checkpoints/last.ckpt",)) -> None:
    """Make the folder that this launcher has started, with these files."""
    (folder / "checkpoints").mkdir(parents=True)
    (folder / LAUNCH_FILE).write_text(f"{launcher}\n")
    os.utime(folder / LAUNCH_FILE, (age, age))
    for file in files:
        (folder / file).touch()


def test_restarted_processes_find_their_run(tmp_path: Path) -> None:
    leave_run(tmp_path / "demo", "other", age=0)
    leave_run(tmp_path / "demo-2", "mine", age=1)
    leave_run(tmp_path / "demo-3", "mine", age=2, files=[])
    leave_run(tmp_path / "demo-long", "mine", age=3)
    assert restarted_arguments(tmp_path, "demo", "unknown", ["seed=2"]) == ["seed=2"]
    # The newest one has no checkpoint: it starts again in the same folder.
    assert restarted_arguments(tmp_path, "demo", "mine", ["seed=2"]) == ["seed=2"]
    assert not (tmp_path / "demo-3").exists()
    assert restarted_arguments(tmp_path, "demo", "mine", ["seed=2"]) == ["seed=2", "name=demo-2", "resume=true"]


def test_run_that_another_step_is_training_is_left_alone(tmp_path: Path) -> None:
    leave_run(tmp_path / "demo", "mine", age=1)
    leave_run(tmp_path / "demo-2", "mine", age=2, files=[])
    with lock_folder(tmp_path / "demo-2"):
        assert restarted_arguments(tmp_path, "demo", "mine", []) == ["name=demo", "resume=true"]
        with lock_folder(tmp_path / "demo"):
            assert restarted_arguments(tmp_path, "demo", "mine", []) == []
    assert (tmp_path / "demo-2").exists()


def test_restarted_processes_complete_a_run_that_looks_finished(tmp_path: Path) -> None:
    """Its summary is written before its graphs. Without a restart, the same launcher starts a second run."""
    leave_run(tmp_path / "demo", "mine", files=["summary.json", "checkpoints/last.ckpt"])
    assert restarted_arguments(tmp_path, "demo", "mine", []) == []
    assert restarted_arguments(tmp_path, "demo", "other", [], restarted=True) == []
    assert restarted_arguments(tmp_path, "demo", "mine", [], restarted=True) == ["name=demo", "resume=true"]
    assert not (tmp_path / "demo" / "summary.json").exists()


def test_signal_after_the_ranks_agreed_counts_from_the_next_update(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other rank goes on, so this one must not wait for it in a checkpoint."""
    settings = train_config([]).training
    last = LastCheckpoint(BestCheckpoints(Path("unused"), settings), settings)
    saved: list[int] = []
    monkeypatch.setattr(last, "_save", lambda trainer: saved.append(trainer.global_step))

    def sums(numbers: list[float]) -> list[float]:
        last.stop_signal = signal.SIGTERM  # as the handler does once the call returns
        return numbers

    monkeypatch.setattr("nmt.training.checkpoints.sums", sums)
    trainer: Any = SimpleNamespace(accumulate_grad_batches=1, is_last_batch=False, global_step=1, should_stop=False)
    last.on_train_batch_end(trainer, cast(Any, None), None, None, 0)
    last.on_train_batch_start(trainer, cast(Any, None), None, 1)
    assert saved == []
    trainer.global_step = 2
    last.on_train_batch_end(trainer, cast(Any, None), None, None, 1)
    assert saved == [2]
    with pytest.raises(Stopped):
        last.on_train_batch_start(trainer, cast(Any, None), None, 2)
    last.stop_signal = None
    last.on_train_epoch_end(trainer, cast(Any, None))
    assert not trainer.should_stop
    last.on_train_epoch_end(trainer, cast(Any, None))
    assert trainer.should_stop


@pytest.mark.slow
@pytest.mark.parametrize("kills", [1, 20])
def test_killed_workers_are_restarted_by_torchrun_and_nothing_is_lost(kills: int, tmp_path: Path) -> None:
    """The run ends with the weights and graphs of an uninterrupted one, although workers were killed at random moments.

    The first kill follows the first checkpoint. Every second one waits for the next checkpoint or for the summary. The
    others only wait for a random time, so that they also hit the start.
    """
    words = [*SMALL, "batches.max_tokens=100", "training.checkpoint_every=2", "training.max_epochs=2", "export=true"]
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    launcher += [f"--max-restarts={kills}", "-m", "nmt.commands.train"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "OMP_NUM_THREADS": "1"}
    subprocess.run([*launcher, *words, "name=whole"], cwd=tmp_path, env=environment, check=True)
    generator, run_folder, killed = random.Random(1), tmp_path / "runs" / "demo", 0
    with (tmp_path / "messages").open("w") as messages:
        run = subprocess.Popen([*launcher, *words], cwd=tmp_path, env=environment, stderr=messages)
        for number in range(kills):
            if number % 2:
                time.sleep(generator.uniform(0, 8))
            else:
                before = saved(run_folder)
                while run.poll() is None and saved(run_folder) == before:
                    time.sleep(0.01)
                time.sleep(generator.uniform(0, 2) if number else 0)
            workers = subprocess.run(["pgrep", "-P", str(run.pid)], capture_output=True, text=True).stdout.split()
            if run.poll() is None and workers:
                os.kill(int(generator.choice(workers)), signal.SIGKILL)
                killed += 1
        assert run.wait(timeout=300) == 0
    assert killed > kills // 2
    assert "run: runs/demo, resumed" in (tmp_path / "messages").read_text()
    folders = [tmp_path / "runs" / name for name in ("whole", "demo")]
    assert same_model(*folders)
    assert sorted(file.name for file in (tmp_path / "runs").iterdir()) == ["demo", "whole"]
    graphs = [sorted(file.name for file in (folder / "onnx").iterdir()) for folder in folders]
    assert graphs[0] == graphs[1]


def saved(run: Path) -> tuple[int, bool]:
    """Return when the last checkpoint was written, and whether the summary exists."""
    last = run / "checkpoints" / "last.ckpt"
    return last.stat().st_mtime_ns if last.exists() else 0, (run / "summary.json").exists()


@pytest.mark.parametrize("failed", [False, True])
def test_other_processes_fail_with_the_first(failed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    launch = detect_launch(torchrun_environment(1, 2, 29500))
    monkeypatch.setattr(ranks, "_launch", launch)
    monkeypatch.setattr(ranks, "_broadcast", lambda message: message.__setitem__(0, (not failed, "result of rank 0")))
    if failed:
        with pytest.raises(SystemExit) as end:
            ranks.from_first(lambda: "result of rank 1")
        assert end.value.code not in (0, None)
    else:
        assert ranks.from_first(lambda: "result of rank 1") == "result of rank 0"
