"""Stop training cleanly on Ctrl-C, SIGTERM and SIGHUP."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from nmt.errors import STOP_SIGNALS
from nmt.training.last_checkpoint import LastCheckpoint

REPEAT_S = 1.0  # timeout(1) and closing terminals send the same signal twice within microseconds


@contextmanager
def stop_on_signal(last: LastCheckpoint) -> Iterator[None]:
    """Let a signal stop training after the current update, and another one, a second later, stop it at once.

    Signals that are ignored, as under nohup, stay ignored. Python handles signals in the main thread only, so in any
    other thread this does nothing.
    """
    received_s = 0.0

    def request_stop(number: int, frame: Any) -> None:
        nonlocal received_s
        if last.stop_signal is None:
            last.stop_signal, received_s = number, time.monotonic()
        elif time.monotonic() - received_s > REPEAT_S:
            raise SystemExit(128 + number)

    before = {}
    if threading.current_thread() is threading.main_thread():
        before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    handled = {number: handler for number, handler in before.items() if handler not in (signal.SIG_IGN, None)}
    for number in handled:
        signal.signal(number, request_stop)
    try:
        yield
    finally:
        for number, handler in handled.items():
            signal.signal(number, handler)
