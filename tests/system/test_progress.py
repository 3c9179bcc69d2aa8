from __future__ import annotations

import io
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.system import progress
from nmt.system.progress import EVERY_S, FIRST_S, Progress, duration, time_left


class Clock:
    """Replaces ``time``; the test decides how much time passes."""

    def __init__(self) -> None:
        self.now = 1000.0

    def perf_counter(self) -> float:
        return self.now


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    return clock


def test_log_file_gets_a_line_after_20_seconds_then_every_minute(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = Progress("pair", total=lambda: 400)
    for second in range(200):
        clock.now = 1000.0 + second
        shown.show(second)
    shown.close()
    assert capsys.readouterr().err.splitlines() == [
        "20 pairs in 20 s, 1.0 pairs/s, 5%, about 6 min left",
        "80 pairs in 80 s, 1.0 pairs/s, 20%, about 5 min left",
        "140 pairs in 2 min, 1.0 pairs/s, 35%, about 4 min left",
    ]


def test_short_job_prints_nothing_to_a_log_file(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    shown = Progress(total=lambda: pytest.fail("a short job does not look at its input"))
    for done in range(1000):
        clock.now += FIRST_S / 1001
        shown.show(done)
    shown.close()
    assert capsys.readouterr().err == ""


def test_total_is_computed_once(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    totals = iter([40])
    shown = Progress(title="translating", total=lambda: next(totals))
    for done in (10, 20):
        clock.now += EVERY_S
        shown.show(done)
    assert capsys.readouterr().err.splitlines() == [
        "translating: 10 lines in 60 s, 0.2 lines/s, 25%, about 3 min left",
        "translating: 20 lines in 2 min, 0.2 lines/s, 50%, about 2 min left",
    ]


def test_unknown_total_has_no_share(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    shown = Progress()
    clock.now += 30
    shown.show(1)
    assert capsys.readouterr().err == "1 line in 30 s, 0.0 lines/s\n"


def test_terminal_overwrites_one_line(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    shown = Progress(total=lambda: 1000)
    for done in (1, 500):
        clock.now += 1
        shown.show(done)
    shown.close()
    shown.close()
    first, second = terminal.getvalue().split("\r")[1:]
    assert first == "1 line in 1 s, 1.0 lines/s, 0%, about 17 min left "
    assert second.rstrip() == "500 lines in 2 s, 250 lines/s, 50%, about 2 s left"
    assert second.endswith(" \n")
    assert second.count("\n") == 1


def test_terminal_that_shows_the_results_shows_no_progress(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    shown = Progress(on_terminal=False)
    clock.now += 1000
    shown.show(1)
    shown.close()
    assert terminal.getvalue() == ""


def test_closed_stderr_raises_nothing(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    shown = Progress()
    clock.now += 1000
    shown.show(1)
    shown.close()


def test_watch_yields_the_items_and_shows_their_number(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    taken = []
    for number in Progress("pair", title="reading", total=lambda: 4096).watch(range(4096)):
        clock.now += 0.02
        taken.append(number)
    assert taken == [*range(4096)]
    shown = "reading: 1,024 pairs in 20 s, 50 pairs/s, 25%, about 61 s left"
    assert capsys.readouterr().err.splitlines() == [shown]


@given(st.floats(0, 1e12), st.floats(0, 1e12), st.floats(0, 1e7))
def test_share_is_between_0_and_100(done: float, total: float, elapsed: float) -> None:
    text = time_left(done, total, elapsed)
    if text:
        share, left = text.removeprefix(", ").split("%, about ")
        assert 0 <= int(share) <= 100
        assert left.endswith(" left")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (99.4, "99 s"), (100, "2 min"), (5969, "99 min"), (6000, "1 h 40 min"), (360000, "100 h 0 min")],
)
def test_duration(seconds: float, text: str) -> None:
    assert duration(seconds) == text
