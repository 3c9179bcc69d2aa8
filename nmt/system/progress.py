"""Progress on stderr with tqdm: one line that is overwritten on a terminal, a line per minute in a log file."""

from __future__ import annotations

import io
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, TypeVar

from nmt.errors import print_message

FIRST_S, EVERY_S = 20.0, 60.0  # in a log file; short jobs print no line
REFRESH_S = 0.5  # on a terminal
ITEMS = 1024  # between two reads of the clock
T = TypeVar("T")


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
        self._options = {"unit": f" {noun}s", "desc": title or None}
        self._total = total or (lambda: None)
        self._is_terminal = sys.stderr is not None and sys.stderr.isatty()
        self._started = time.perf_counter()
        hidden = self._is_terminal and not on_terminal
        self._due = float("inf") if hidden else self._started + (REFRESH_S if self._is_terminal else FIRST_S)
        self._bar: Any = None

    def show(self, done: int) -> None:
        """Show that ``done`` nouns are done."""
        now = time.perf_counter()
        if now < self._due:
            return
        if self._bar is None:
            self._bar = self._new_bar()
        self._bar.n = done
        if self._is_terminal:
            with suppress(OSError):  # the terminal is gone
                self._bar.refresh()
        else:
            print_message(str(self._bar).strip())
        self._due = now + (REFRESH_S if self._is_terminal else EVERY_S)

    def _new_bar(self) -> Any:
        from tqdm import tqdm  # the first line must not wait for it

        tqdm.monitor_interval = 0  # no thread
        tqdm.set_lock(threading.RLock())
        total = self._total()
        file = sys.stderr if self._is_terminal else io.StringIO()
        bar = tqdm(total=None if total is None else round(total), file=file, ascii=True, **self._options)
        bar.start_t -= time.perf_counter() - self._started
        return bar

    def watch(self, items: Iterable[T]) -> Iterator[T]:
        """Yield the items, and show how many were taken."""
        for done, item in enumerate(items):
            if done % ITEMS == 0 and done:
                self.show(done)
            yield item
        self.close()

    def close(self) -> None:
        """End the line on the terminal."""
        if self._bar is not None:
            with suppress(OSError):
                self._bar.close()
