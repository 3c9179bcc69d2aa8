"""No damaged log, picture or stream costs a run its results."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny import ONE_EPOCH, metrics, summary

from nmt.commands.train import train
from nmt.training.logs import LiveProgress, MetricsFile
from nmt.training.metrics import COLUMNS, HEADER, read_rows


@given(st.lists(st.binary(max_size=40)), st.integers(0, 9))
def test_intact_rows_survive_any_damage_between_them(garbage: list[bytes], step: int) -> None:
    intact = [b"1,0,5.5,,,,,", b"2,0,,5.5,0.1,0.0,0.0,", b"5,1,,,,,,0.001"]
    lines = [HEADER.encode(), *(line for pair in zip(intact, garbage[:3], strict=False) for line in pair), *intact]
    with TemporaryDirectory() as folder:
        file = Path(folder, "metrics.csv")
        file.write_bytes(b"\r\n".join([*lines, b"", *garbage]))
        MetricsFile(Path(folder)).forget(step)
        rows, damaged = read_rows(file)
    steps = [row[0] for row in rows]
    assert not damaged and all(len(row) == len(COLUMNS) and int(row[0]) < step for row in rows)
    for number in ("1", "2", "5"):
        assert (number in steps) is (int(number) < step)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["metrics.csv", "tensorboard", "heatmaps", "alignments.html", "curve.png"])
def test_log_or_picture_that_cannot_be_written_costs_nothing_else(
    stopped: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    place = stopped / name
    if place.is_dir():
        place.rename(stopped / "elsewhere")
    place.unlink(missing_ok=True)
    if name in ("tensorboard", "heatmaps"):
        place.touch()  # a file where a folder should be
    else:
        place.mkdir()
    train(["resume=true"])
    warnings = [line for line in capsys.readouterr().err.splitlines() if line.startswith("warning: runs/")]
    assert warnings and all(name in line for line in warnings)
    results = {"summary.json", "test.translations.txt", "test.references.links.txt", "metrics.csv", "alignments.html"}
    assert all((stopped / file).is_file() for file in results - {name})


@pytest.mark.thorough
@pytest.mark.parametrize("function", ["save_curve", "save_heatmap", "alignment_page", "force_decode"])
def test_any_error_of_a_picture_is_a_warning(
    run: Path, function: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(f"nmt.training.report.{function}", Mock(side_effect=ZeroDivisionError("no font\nat all")))
    train(ONE_EPOCH)
    assert "no font at all; the run continues without it" in capsys.readouterr().err
    assert summary(run)["test"]["aer"] is not None


@pytest.mark.thorough
def test_closed_streams_stop_nothing(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", Closed())
        patch.setattr(sys, "stdout", None)
        train(ONE_EPOCH)
    assert (run / "summary.json").is_file()


@pytest.mark.thorough
def test_metrics_are_written_for_tensorboard_too(finished: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(finished / "tensorboard"))
    events.Reload()
    for logged, row in zip(events.Scalars("valid_loss"), metrics(finished, "valid_loss"), strict=True):
        assert logged.step == int(row["step"]) and logged.value == pytest.approx(float(row["valid_loss"]), rel=1e-6)


def test_the_time_of_a_resumed_run_is_that_of_all_its_updates() -> None:
    live = LiveProgress()
    live.load_state_dict({"elapsed": 100.0})
    trainer: Any = SimpleNamespace(global_step=506, accumulate_grad_batches=1, current_epoch=3)
    settings = SimpleNamespace(max_epochs=None, max_steps=None, max_minutes=None)
    task = SimpleNamespace(settings=settings, interval=SimpleNamespace(means={"train_loss": 3.0}))
    assert live._text(trainer, task, 20.0).startswith("epoch 4  506 updates in 2 min  loss 3.000")


@pytest.mark.parametrize(
    ("limits", "end"),
    [
        ((None, 1000, None), "50%, at most 2 min left"),
        ((None, 1000, 1.0), "71%, at most 40 s left"),
        ((None, 1000, 9.0), "50%, at most 2 min left"),
        ((None, None, 1.0), "71%, at most 40 s left"),
    ],
)
def test_the_first_limit_gives_the_time_left(limits: tuple[int | None, int | None, float | None], end: str) -> None:
    """The run was resumed after 400 batches, has made 100 more in 20 s, and makes 200 more in the last 40 s."""
    live = LiveProgress()
    live.batches, live._first = 500, 400
    trainer: Any = SimpleNamespace(global_step=500, accumulate_grad_batches=1, current_epoch=3)
    settings = SimpleNamespace(**dict(zip(("max_epochs", "max_steps", "max_minutes"), limits, strict=True)))
    task = SimpleNamespace(settings=settings, interval=SimpleNamespace(means={"train_loss": 3.0}))
    assert live._text(trainer, task, 20.0).endswith(f" tokens/s, {end}")


@pytest.mark.parametrize("step", ["-1", str(1 << 63), "9" * 400])
def test_impossible_step_is_damage(step: str, tmp_path: Path) -> None:
    """A picture of such a curve fails: its axis has no such number."""
    file = tmp_path / "metrics.csv"
    file.write_text(f"{HEADER}\n3,0,5.5,,,,,\n{step},0,5.5,,,,,\n")
    rows, damaged = read_rows(file)
    assert ([row[0] for row in rows], damaged) == (["3"], 1)


@pytest.mark.thorough
def test_log_file_of_a_long_run_gets_lines_within_an_epoch(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def progress() -> list[str]:
        train(ONE_EPOCH)
        return [line for line in capsys.readouterr().err.splitlines() if " update" in line and "tokens/s" in line]

    assert progress() == []
    monkeypatch.setattr("nmt.system.progress.FIRST_S", 0.0)
    monkeypatch.setattr("nmt.system.progress.EVERY_S", 0.0)
    lines = progress()
    assert len(lines) >= 2
    form = r"epoch 1  [0-9]+ updates? in [0-9]+ s  loss [0-9]+[.][0-9]{3}  [0-9,]+ tokens/s, [0-9]+%, at most .+ left"
    assert all(re.fullmatch(form, line) for line in lines), lines
    assert "100%, at most 0 s left" in lines[-1]
