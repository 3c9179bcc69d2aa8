"""benchmarks/runs.py trains each cell of a benchmark once, and keeps records that outlive the folders of the runs."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from commands.processes import wait_until

from benchmarks.runs import Runs

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).parents[1]
COMMIT = "0123456789abcdef"


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands of all trainings. Each "training" writes the results files of a run, whose BLEU is its number."""
    started: list[list[str]] = []

    def run(command: list[str], **_: Any) -> SimpleNamespace:
        words = dict(word.split("=", 1) for word in command[3:])
        if "fail" in words:
            return SimpleNamespace(returncode=1, stderr="error: out of luck")
        started.append(command)
        write_run(Path(words["runs"]) / words["name"], bleu=len(started))
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr(subprocess, "run", run)
    return started


def write_run(folder: Path, bleu: float) -> None:
    folder.mkdir(parents=True)
    summary = {"test": {"bleu": bleu}, "seconds": 1.5, "toolkit": {"commit": COMMIT, "changed": True}, "seed": 1}
    (folder / "summary.json").write_text(json.dumps(summary))
    (folder / "metrics.csv").write_text("step,epoch,train_loss,valid_loss\n9,0,2.5,\n19,0,2.0,\n19,0,,1.5\n")


@pytest.fixture
def runs(tmp_path: Path) -> Callable[[], Any]:
    return lambda: Runs(tmp_path / "runs" / "question", tmp_path / "records", curves=("train_loss",))


def test_record_remains_without_the_folder(runs: Any, commands: list[list[str]], tmp_path: Path) -> None:
    first = runs().train("a", ["seed=1", f"data.folder={tmp_path}"])
    assert first["test"] == {"bleu": 1} and first["metrics"]["valid_loss"] == 1.5
    assert first["curves"] == {"train_loss": [[9, 2.5], [19, 2.0]]}
    shutil.rmtree(tmp_path / "runs")
    later = runs()
    assert later.finished("a") == later.train("a", ["seed=1", "data.folder=/elsewhere"]) == first
    assert later.finished("b") is None
    assert later.commits() == "trained at 0123456+ (1 run)"
    assert len(commands) == 1
    assert str(tmp_path) not in (tmp_path / "records" / "question.jsonl").read_text()


def test_scores_are_measured_once_for_each_training(runs: Any, commands: list[list[str]], tmp_path: Path) -> None:
    measured: list[Path] = []

    def measure(folder: Path) -> dict[str, Any]:
        measured.append(folder)
        return {"aer": 0.25}

    runs().train("a", [])
    assert runs().score("a", "gold", measure) == {"aer": 0.25}
    shutil.rmtree(tmp_path / "runs")
    assert runs().score("a", "gold", measure) == {"aer": 0.25}
    assert measured == [tmp_path / "runs" / "question" / "a"]
    with pytest.raises(SystemExit, match="^a: no model in .* to measure; remove its line"):
        runs().score("a", "other", measure)
    runs().train("a", [], model=True)  # another run of this name
    later = runs()
    later.finished("a")
    later.score("a", "gold", measure)
    assert len(measured) == 2


def test_run_with_other_settings_is_refused(runs: Any, commands: list[list[str]], tmp_path: Path) -> None:
    runs().train("a", ["seed=1"])
    for place in ("runs/question/a", "records/question.jsonl"):
        with pytest.raises(SystemExit, match=f"^a: {tmp_path}/{place} has a run with other settings; remove it"):
            runs().train("a", ["seed=2"])
        shutil.rmtree(tmp_path / "runs", ignore_errors=True)


def test_run_trained_by_hand_is_used(runs: Any, commands: list[list[str]], tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "question" / "a", bleu=30)
    assert runs().finished("a")["test"] == {"bleu": 30}
    for place in ("runs", "records"):
        assert runs().train("a", ["seed=1"])["test"] == {"bleu": 30}
        with pytest.raises(SystemExit, match=f"{place}.* other settings"):
            runs().train("a", ["seed=2"])
        shutil.rmtree(tmp_path / "runs", ignore_errors=True)
    assert not commands


def test_records_of_runs_at_the_same_time_are_all_kept(runs: Any, commands: list[list[str]]) -> None:
    shared = runs()
    names = [f"run{number}" for number in range(20)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: shared.train(name, []), names))
    assert {*runs().records} == {*names}


def test_failed_training_and_damaged_records_stop_with_a_message(
    runs: Any, commands: list[list[str]], tmp_path: Path
) -> None:
    with pytest.raises(SystemExit, match="^fail=1:\nerror: out of luck"):
        runs().train("a", ["fail=1"])
    (tmp_path / "records").mkdir()
    (tmp_path / "records" / "question.jsonl").write_text("{}\n")
    with pytest.raises(SystemExit, match="question.jsonl:1: not a record of a run; remove the line$"):
        runs()


@pytest.mark.skipif(sys.platform != "linux", reason="uses prctl")
def test_a_stopped_benchmark_leaves_no_training_behind() -> None:
    program = """
import subprocess, sys
from benchmarks.runs import end_with_parent
child = [sys.executable, "-c", "import os, time; print(os.getpid(), flush=True); time.sleep(60)"]
subprocess.run(child, preexec_fn=end_with_parent)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=ROOT) as benchmark:
        assert benchmark.stdout is not None
        training = int(benchmark.stdout.readline())
        assert is_running(training)
        benchmark.kill()
    wait_until(lambda: not is_running(training))


def is_running(process: int) -> bool:
    """Return whether a process exists and has not ended; its parent may not have noticed yet that it ended."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
