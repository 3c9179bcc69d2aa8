"""Only one process at a time trains into a folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from builders import call_before, expect_error
from tiny import ONE_EPOCH

from nmt.commands.train import train
from nmt.errors import UserError
from nmt.files.atomic import lock_folder
from nmt.training.logs import MetricsFile
from nmt.training.task import TranslationTask

pytestmark = pytest.mark.attack("two processes on one run")


@pytest.mark.thorough
def test_second_process_is_refused_and_changes_nothing(stopped: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from nmt.files.atomic import lock_folder\n"
        "with lock_folder(Path(sys.argv[1])): print('held', flush=True); time.sleep(60)"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-c", code, str(stopped)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as holder:
        try:
            assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
            before = {file: file.stat().st_mtime_ns for file in stopped.rglob("*")}
            expect_error("runs/demo", train, ["resume=true"])
            assert {file: file.stat().st_mtime_ns for file in stopped.rglob("*")} == before
        finally:
            holder.kill()  # a dead process holds no lock
    train(["resume=true"])


@pytest.mark.thorough
def test_new_run_is_locked_while_it_trains(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = []

    def lock_it_too(task: TranslationTask) -> None:
        with pytest.raises(UserError), lock_folder(run):
            pass
        refused.append(True)

    call_before(monkeypatch, TranslationTask, "on_train_start", lock_it_too)
    train(ONE_EPOCH)
    assert refused == [True]
    with lock_folder(run):
        pass


@pytest.mark.thorough
def test_unfinished_files_of_a_killed_process_are_removed(stopped: Path) -> None:
    partial = [folder / ".nmt-1.partial" for folder in (stopped, stopped / "checkpoints")]
    for folder in partial:
        folder.mkdir()
    train(["resume=true"])
    assert not any(folder.exists() for folder in partial)


def test_run_that_is_deleted_during_training_is_an_error(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    call_before(monkeypatch, TranslationTask, "on_train_start", lambda task: shutil.rmtree(run))
    expect_error("runs/demo", train, ONE_EPOCH)


def test_run_that_is_deleted_between_two_checkpoints_is_an_error_at_the_next_metrics(tmp_path: Path) -> None:
    log = MetricsFile(tmp_path / "run")
    expect_error("run: was deleted or moved during training", log.log_metrics, {"train_loss": 1.0}, 1)
    (tmp_path / "run" / "metrics.csv").mkdir(parents=True)
    log.log_metrics({"train_loss": 1.0}, 1)  # any other problem is a warning
