"""Outputs that a run can do without: pictures, logs and messages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

from nmt.errors import print_message, reason


class UnfailingStream:
    """A text stream that drops what it cannot write: training goes on when its terminal or pipe is closed."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        with suppress(OSError, ValueError):  # ValueError: closed by Python code
            self.stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            self.stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def warn(message: str) -> None:
    print_message(f"warning: {message}")


@contextmanager
def optional(what: str) -> Iterator[None]:
    """Turn any error of the block into a warning: no picture or log may cost a run its model, scores or translations.

    Every exception counts, because the libraries that draw and log raise their own.
    """
    try:
        yield
    except Exception as error:
        warn(f"{what}: {reason(error)}; the run continues without it")
