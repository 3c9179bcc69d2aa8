"""Lines that are too long for the model's attention or for the machine's memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from nmt.errors import UserError, counted
from nmt.machine import is_out_of_memory
from nmt.text.words import count_words

Result = TypeVar("Result")
OnFailure = Callable[[int, str], None]
"""Called for a line that has no result: it is oversized, or its scores are not finite. Gets the line's row, counted
from 0, and the reason."""


class SourceTooLong(UserError):
    """A source line that the model's attention or the machine's memory cannot hold. Other lines can be translated."""


def oversized_reason(error: Exception, line: str) -> str | None:
    """Return why ``line`` is too long for the model or the machine; None if ``error`` has another cause."""
    if isinstance(error, SourceTooLong):
        return str(error)
    if is_out_of_memory(error):
        return f"not enough memory for this line of {counted(count_words(line), 'word')}"
    return None


def run_in_halves(
    run: Callable[[slice], list[Result]], lines: Sequence[str], *, failed: Result, on_failure: OnFailure | None
) -> list[Result]:
    """Return one result per line; ``run`` computes the results of a slice of the lines.

    If a slice is too large, both halves are run separately, so that all lines that fit are still processed in batches.
    A single line that is too large calls ``on_failure`` and gets the result ``failed``. Without ``on_failure``, it
    raises SourceTooLong.
    """

    def run_rows(start: int, stop: int) -> list[Result]:
        try:
            return run(slice(start, stop))
        except Exception as error:
            reason = oversized_reason(error, lines[start])
            if reason is None:
                raise
            if stop - start == 1 and on_failure is None:
                raise SourceTooLong(f"lines[{start}]: {reason}") from error
        # Outside the except clause: the exception keeps the tensors of the failed batch alive.
        if stop - start == 1:
            assert on_failure is not None
            on_failure(start, reason)
            return [failed]
        middle = (start + stop) // 2
        return run_rows(start, middle) + run_rows(middle, stop)

    return run_rows(0, len(lines)) if lines else []
