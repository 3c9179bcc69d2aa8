"""Experiment trackers get configuration, metrics and scores, and none of their errors costs a run its report."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from builders import call_before
from tiny import SMALL, metrics, refuse, stop_at, summary

from nmt.commands.train import train
from nmt.config.init_from import read_yaml
from nmt.training import logs as module
from nmt.training.task import TranslationTask

pytestmark = pytest.mark.thorough

# A logger as Lightning's are: a new log has a new number, an existing one continues.
STAND_IN = """
from pytorch_lightning.loggers import Logger

LOGS = {}
FAILING = set()


class StandIn(Logger):
    def __init__(self, *, project: str, run_name: str, run_id: str | None = None, **rest: object) -> None:
        super().__init__()
        if rest:  # wandb.init gets the rest from WandbLogger, and refuses unknown arguments
            raise TypeError("unexpected keyword argument")
        if project == "refused":
            raise ValueError("no such\\nproject")
        self.run_name, self.run_id = run_name, run_id

    def call(self, name, *values):
        if name in FAILING:
            raise ConnectionError("server\\nis down")
        self.run_id = self.run_id or f"id-{len(LOGS)}"
        LOGS.setdefault(self.run_id, []).append((name, *values))

    @property
    def name(self):
        raise AssertionError("may ask a server")

    @property
    def version(self):
        return self.run_id

    @property
    def experiment(self):
        return self

    def log_hyperparams(self, params):
        self.call("params", self.run_name, params)

    def log_metrics(self, metrics, step):
        self.call("metrics", metrics, step)

    def after_save_checkpoint(self, callback):  # as Weights & Biases and MLflow do with log_model=all
        self.call("saved", callback.best_model_path, list(callback.best_k_models))

    def finalize(self, status):
        self.call("finalize", status)

    def finish(self, exit_code):
        self.call("finish", exit_code)
"""
LOGGED = [*SMALL, "--config-dir=mine", "trust=[stand_in_tracker]", "logger=mine"]


@pytest.fixture(autouse=True)
def stand_in(run: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The module of the stand-in, which ``logger=mine`` chooses."""
    (run.parents[1] / "stand_in_tracker.py").write_text(STAND_IN)
    (run.parents[1] / "mine" / "logger").mkdir(parents=True)
    (run.parents[1] / "mine" / "logger" / "mine.yaml").write_text("_target_: stand_in_tracker.StandIn\nproject: x\n")
    monkeypatch.syspath_prepend(run.parents[1])
    import stand_in_tracker  # type: ignore[import-not-found]

    yield stand_in_tracker
    del sys.modules["stand_in_tracker"]


def points(calls: list[tuple[Any, ...]], name: str) -> list[tuple[int, float]]:
    """Return (step, value) of each logged value of this metric."""
    logged = [values for kind, *values in calls if kind == "metrics"]
    return [(step, values[name]) for values, step in logged if name in values]


def test_configuration_metrics_and_scores_arrive_once(run: Path, stand_in: Any) -> None:
    train(LOGGED)
    (calls,) = stand_in.LOGS.values()
    assert calls[0] == ("params", "demo", read_yaml(run / "config.yaml"))
    assert calls[-2:] == [("finalize", "success"), ("finish", 0)]
    for name in ("valid_loss", "valid_bleu", "train_loss"):
        assert points(calls, name) == [(int(row["step"]), float(row[name])) for row in metrics(run, name)]
    best = [call[1:] for call in calls if call[0] == "saved"][-1]
    assert best == (*map(str, files := [*Path("runs/demo/checkpoints").glob("best-*")]), [*map(str, files)])
    last = int(metrics(run, "step")[-1]["step"])
    for name, score in summary(run)["test"].items():
        assert points(calls, f"test_{name}") == [(last, score)]


def test_resumed_run_continues_its_log(run: Path, stand_in: Any) -> None:
    stop_at(0, LOGGED)
    (calls,) = stand_in.LOGS.values()
    assert calls[-2:] == [("finalize", "failed"), ("finish", 1)]
    train(["resume=true", "--config-dir=mine", "trust=[stand_in_tracker]"])
    assert len(stand_in.LOGS) == 1 and [call[0] for call in calls].count("params") == 1
    steps = [step for step, _ in points(calls, "valid_loss")]
    assert steps == sorted(set(steps))
    assert calls[-1] == ("finish", 0)


@pytest.mark.parametrize("failing", ["params", "metrics", "finalize", "finish"])
def test_error_of_a_tracker_is_one_warning(
    run: Path, failing: str, stand_in: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    stand_in.FAILING.add(failing)
    train(LOGGED)
    warnings = [line for line in capsys.readouterr().err.splitlines() if line.startswith("warning: logger")]
    place = "logger stand_in_tracker.StandIn"
    assert warnings == [f"warning: {place}: server is down; the run continues without it"]
    assert summary(run)["test"]["aer"] is not None
    (calls,) = stand_in.LOGS.values() or [[]]
    if failing == "metrics":
        assert [call[0] for call in calls] == ["params", "finalize", "finish"]  # still closed


def test_failed_run_is_logged_as_failed(run: Path, stand_in: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    call_before(monkeypatch, TranslationTask, "training_step", Mock(side_effect=ZeroDivisionError))
    with pytest.raises(ZeroDivisionError):
        train(LOGGED)
    (calls,) = stand_in.LOGS.values()
    assert calls[-2:] == [("finalize", "failed"), ("finish", 1)]


def test_refused_settings_are_one_line_and_leave_no_folder(run: Path) -> None:
    words = [*LOGGED, "logger.project=refused"]
    refuse(words, "logger: stand_in_tracker.StandIn refuses its settings: no such project")
    assert not run.exists()


@pytest.mark.parametrize("name", ["wandb", "mlflow"])
def test_missing_package_names_the_extra(run: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_spec", lambda package: None)
    message = rf"logger={name}: needs the extra {name}; in the clone: pip install '\.\[{name}\]'"
    refuse([*SMALL, f"logger={name}"], message)
    assert not run.exists()
