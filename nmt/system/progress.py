"""Progress on stderr: one line that is overwritten on a terminal, a line per minute in a log file."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache
from typing import TypeVar

from nmt.errors import counted, print_message, printable

FIRST_S = 20.0  # short jobs print no line
EVERY_S = 60.0
ITEMS = 1024  # between two reads of the clock
LEAST_SHARE = 1e-6  # below this, the time left is unknown
T = TypeVar("T")


class Minutes:
    """Says when a line of a log file is due: after ``FIRST_S`` seconds, then every ``EVERY_S``."""

    def __init__(self) -> None:
        self.started = time.perf_counter()
        self._due = FIRST_S

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self.started

    def is_due(self) -> bool:
        """Return whether a line is due, once for each line."""
        elapsed = self.elapsed
        if elapsed < self._due:
            return False
        self._due = elapsed + EVERY_S
        return True


class StatusLine:
    """A line on stderr that says how far work is: overwritten on a terminal, elsewhere a new line per minute.

    ``on_terminal`` is false where results are printed on the same terminal. On a terminal, it is shown again after
    ``every_s`` at the earliest.
    """

    def __init__(self, *, on_terminal: bool = True, every_s: float = 0.0) -> None:
        self._is_terminal = sys.stderr is not None and sys.stderr.isatty()
        self._on_terminal = on_terminal
        self._every_s, self._due = every_s, 0.0
        self._minutes = Minutes()
        self._width = 0  # of the line on the terminal; 0: nothing was shown

    def show(self, text: Callable[[float], str]) -> None:
        """Show the text, if it is due. Its function gets the seconds since the start."""
        elapsed = self._minutes.elapsed
        if self._is_terminal:
            if self._on_terminal and elapsed >= self._due:
                line = printable(text(elapsed))
                self._write(f"\r{line.ljust(self._width)} ")
                self._width = len(line)
                self._due = elapsed + self._every_s
        elif self._minutes.is_due():
            print_message(text(elapsed))

    def _write(self, text: str) -> None:
        with suppress(OSError):  # the terminal is gone
            print(text, end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Remove the line from the terminal."""
        if self._width:
            self._write(f"\r{' ' * self._width} \r")
            self._width = 0

    def close(self) -> None:
        """End the line on the terminal."""
        if self._width:
            self._width = 0
            print_message("")


class Progress:
    """Shows on stderr how many lines (or another ``noun``) are done, per second, and how much time is left.

    ``total`` is called once, when progress is shown first, and returns their number if that is known. ``title`` stands
    before the numbers. ``on_terminal`` is false where results are printed on the same terminal.
    """

    def __init__(
        self,
        noun: str = "line",
        *,
        title: str = "",
        total: Callable[[], float | None] | None = None,
        on_terminal: bool = True,
    ) -> None:
        self._noun = noun
        self._title = f"{title}: " if title else ""
        self._total = cache(total or (lambda: None))
        self._line = StatusLine(on_terminal=on_terminal)

    def show(self, done: int) -> None:
        """Show that ``done`` nouns are done."""
        self._line.show(lambda elapsed: self._text(done, elapsed))

    def watch(self, items: Iterable[T]) -> Iterator[T]:
        """Yield the items, and show how many were taken."""
        for done, item in enumerate(items):
            if done % ITEMS == 0 and done:
                self.show(done)
            yield item
        self.close()

    def close(self) -> None:
        """End the line on the terminal."""
        self._line.close()

    def _text(self, done: int, elapsed: float) -> str:
        rate = done / max(elapsed, 1e-9)
        speed = f"{rate:,.0f}" if rate >= 10 else f"{rate:.1f}"
        text = f"{self._title}{counted(done, self._noun)} in {duration(elapsed)}, {speed} {self._noun}s/s"
        return text + time_left(done, self._total(), elapsed)


def time_left(done: float, total: float | None, elapsed: float, *, before: float = 0.0, word: str = "about") -> str:
    """Return the share that is done and the time left, as the end of a line; empty where the total is unknown.

    The work ``before`` was done in other sessions, the rest in ``elapsed`` seconds.
    """
    if not total or (new := min(done, total) - before) < LEAST_SHARE * total:
        return ""
    left = duration(elapsed * max(0.0, total - done) / new)
    return f", {min(done / total, 1.0):.0%}, {word} {left} left"


def duration(seconds: float) -> str:
    """Return a time as people write it: ``40 s``, ``12 min``, ``3 h 20 min``."""
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"
