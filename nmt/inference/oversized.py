"""Lines that have no result, such as those that are too long for the attention or for the machine's memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from nmt.data.words import count_words
from nmt.errors import UserError, counted
from nmt.system.machine import is_out_of_memory

Result = TypeVar("Result")
OnFailure = Callable[[int, str], None]
"""Called for a line that has no result: it is oversized, or its scores are not finite. Gets the line's row, counted
from 0, and the reason."""


class SourceTooLong(UserError):
    """A source line that the model's attention or the machine's memory cannot hold. Other lines can be translated."""


class Failure(NamedTuple):
    """The place of a line that has no result, in a list of results: the reason, and the error to raise for it."""

    reason: str
    error: type[UserError] = UserError
    of: str = "lines"
    """The argument that holds the line, for the message of the error."""


def report(
    results: Iterable[Result | Failure], *, failed: Result, on_failure: OnFailure | None, first: int = 0
) -> list[Result]:
    """Return the results, with ``failed`` in the place of each failure.

    Each failure calls ``on_failure`` with its row, counted from ``first``, or is raised if that is None.
    """
    reported: list[Result] = []
    for row, result in enumerate(results, first):
        if isinstance(result, Failure):
            if on_failure is None:
                raise result.error(f"{result.of}[{row}]: {result.reason}")
            on_failure(row, result.reason)
            result = failed
        reported.append(result)
    return reported


def oversized_reason(error: Exception, line: str) -> str | None:
    """Return why ``line`` is too long for the model or the machine; None if ``error`` has another cause."""
    if isinstance(error, SourceTooLong):
        return str(error)
    if is_out_of_memory(error):
        return f"not enough memory for this line of {counted(count_words(line), 'word')}"
    return None


def run_in_halves(
    run: Callable[[slice], Sequence[Result | Failure]],
    lines: Sequence[Any],
    reason: Callable[[Exception, Any], str | None] = oversized_reason,
    first: int = 0,
) -> Iterator[Result | Failure]:
    """Yield one result per line; ``run`` computes the results of a slice, whose lines are counted from ``first``.

    If a slice is too large, both halves are run separately, so that all lines that fit are still processed in batches.
    A single line that is too large is a failure. ``reason`` tells whether an error means that.
    """
    results: Sequence[Result | Failure] | None = None
    try:
        results = run(slice(first, first + len(lines))) if lines else []
    except Exception as error:
        if (too_large := reason(error, lines[0])) is None:
            raise
        if len(lines) == 1:
            results = [Failure(too_large, SourceTooLong)]
    # Outside the except clause: the exception keeps the tensors of the failed batch alive.
    if results is not None:
        yield from results
        return
    middle = len(lines) // 2
    yield from run_in_halves(run, lines[:middle], reason, first)
    yield from run_in_halves(run, lines[middle:], reason, first + middle)
