"""Progress: an overwritten line on a terminal, a line per minute in a log file, nothing for a short job."""

from __future__ import annotations

import io
import re
import sys

import pytest

from nmt.system import progress
from nmt.system.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The number of seconds since the start, which the test decides."""
    now = [1000.0]
    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    monkeypatch.setattr("tqdm.std.time", lambda: now[0])
    return now


def run(clock: list[float], shown: Progress, seconds: int) -> None:
    """Do one unit of work per second."""
    for second in range(seconds):
        clock[0] = 1000.0 + second
        shown.show(second)
    shown.close()


def test_log_file_gets_a_line_after_20_seconds_then_every_minute(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    run(clock, Progress("pair", title="reading", total=lambda: 400.3), 200)
    lines = capsys.readouterr().err.splitlines()
    assert [re.findall(r"\d+/400|[\d.]+ pairs/s|<[\d:]+", line) for line in lines] == [
        [f"{done}/400", f"<{left}", "1.00 pairs/s"] for done, left in ((20, "06:20"), (80, "05:20"), (140, "04:20"))
    ]
    assert all(line.startswith("reading:") for line in lines)


def test_short_job_prints_nothing_to_a_log_file(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    run(clock, Progress(total=lambda: pytest.fail("a short job does not look at its input")), 20)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("on_terminal", [True, False])
def test_terminal_has_one_line_unless_results_are_printed_there(
    clock: list[float], monkeypatch: pytest.MonkeyPatch, on_terminal: bool
) -> None:
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    run(clock, Progress(on_terminal=on_terminal), 5)
    shown = terminal.getvalue()
    assert bool(shown) == on_terminal and shown.count("\n") == on_terminal
    assert not shown or "4 lines" in shown.split("\r")[-1]


def test_lost_terminal_stops_nothing(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    shown = Progress()
    clock[0] += 1
    shown.show(1)
    monkeypatch.setattr(terminal, "write", lambda text: (_ for _ in ()).throw(OSError))
    clock[0] += 1
    shown.show(2)


def test_watched_items_come_back(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "ITEMS", 2)
    assert list(Progress().watch(range(5))) == [0, 1, 2, 3, 4]
