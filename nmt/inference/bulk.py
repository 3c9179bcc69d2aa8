"""Translate groups of lines in order, several batches at once, and report the lines that have no result.

n threads with one batch each are faster than n threads that share every step of one batch: 1.2 to 1.5 times on two
cores (benchmarks/results/decode_ct2.md). A group that is a single batch, such as one line, gets all threads for itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from nmt.data.words import count_words
from nmt.errors import SourceTooLong, UserError, counted
from nmt.inference.translation import Translation
from nmt.search.search import batches_by_length
from nmt.system.machine import is_out_of_memory
from nmt.text.specials import EOS

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

Result = TypeVar("Result")
OnFailure = Callable[[int, str], None]
"""Called for a line that has no result: it is oversized, or its scores are not finite. Gets the line's row, counted
from 0, and the reason."""


class Failure(NamedTuple):
    """Stands for a line without a result in a list of results: the reason, and the error to raise for it."""

    reason: str
    error: type[UserError] = UserError
    of: str = "lines"
    """The argument that holds the line, for the message of the error."""


def replace_failures(
    results: Iterable[Result | Failure], *, failed: Result, on_failure: OnFailure | None, first: int = 0
) -> list[Result]:
    """Return the results, with ``failed`` instead of each failure.

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


def oversized_reason(error: BaseException, line: str) -> str | None:
    """Return the reason if ``line`` is too long for the model or the machine; None if ``error`` has another cause."""
    if isinstance(error, SourceTooLong):
        return str(error)
    if is_out_of_memory(error):
        return f"not enough memory for this line of {counted(count_words(line), 'word')}"
    return None


def run_in_halves(
    run: Callable[[slice], Sequence[Result | Failure]], lines: Sequence[str], first: int = 0
) -> Iterator[Result | Failure]:
    """Yield one result per line; ``run`` computes the results of a slice, whose lines are counted from ``first``.

    If a slice is too large, both halves are run separately, so that all lines that fit are still processed in batches.
    A single line that is too large is a failure.
    """
    results: Sequence[Result | Failure] | None = None
    try:
        results = run(slice(first, first + len(lines))) if lines else []
    except Exception as error:
        if (reason := oversized_reason(error, lines[0])) is None:
            raise
        if len(lines) == 1:
            results = [Failure(reason, SourceTooLong)]
    # Outside the except clause: the exception keeps the tensors of the failed batch alive.
    if results is not None:
        yield from results
        return
    middle = len(lines) // 2
    yield from run_in_halves(run, lines[:middle], first)
    yield from run_in_halves(run, lines[middle:], first + middle)


TOKENS_AT_ONCE = 1024  # of each of several batches: four of them take as much memory as one batch of 4096
LEAST_TOKENS = 256  # smaller batches spend most of their time reading the weights

Sources = list[list[int]]
Results = list[Translation | Failure]
Decode = Callable[[Sources, Sequence[int], bool], Results]
"""Translates one batch, given the rows of its lines, from 0 over all groups, and whether others run beside it."""


@dataclass
class _Group:
    """A group of lines, the source of each line that has one, and the batches that its rows were split into."""

    lines: Sequence[str]
    first: int
    """Number of lines before the group."""
    sources: dict[int, list[int]]
    batches: list[list[int]]
    futures: Sequence[Future[Results]] = ()
    """One for each batch; none if they run one after the other."""


@dataclass(frozen=True, kw_only=True)
class Bulk:
    """Splits groups of lines into batches and decodes up to ``workers`` of them at once.

    ``encode`` returns the piece ids of a line. ``max_tokens`` and ``max_rows`` limit a batch: its source pieces with
    padding, and its sentences.
    """

    encode: Callable[[str], list[int]]
    decode: Decode
    workers: int
    max_tokens: int
    max_rows: int

    def translate(self, groups: Iterable[Sequence[str]]) -> Generator[Results]:
        """Yield the translation or failure of each line of a group, for each group, in order.

        The next group is taken while fewer than ``workers`` batches wait behind the oldest group. An error of
        ``groups`` is raised after the translations of the groups before it.
        """
        error: Exception | None = None
        threads: ThreadPoolExecutor | None = None  # needed from the first group with several batches on
        waiting: deque[_Group] = deque()
        iterator = iter(groups)
        done = 0
        try:
            while True:
                try:
                    lines = next(iterator)
                except StopIteration:
                    break
                except Exception as failure:
                    error = failure
                    break
                group = self._split(lines, done)
                done += len(lines)
                if threads is None and self.workers > 1 and len(group.batches) > 1:
                    import concurrent.futures  # takes time, and most calls need no threads

                    threads = concurrent.futures.ThreadPoolExecutor(self.workers)
                if threads is not None:
                    group.futures = [threads.submit(self._decode, group, rows) for rows in group.batches]
                waiting.append(group)
                while waiting and self._must_yield(waiting):
                    yield self._collect(waiting.popleft(), waiting)
            while waiting:
                yield self._collect(waiting.popleft(), waiting)
        finally:
            if threads is not None:
                threads.shutdown(cancel_futures=True)
        if error is not None:
            raise error

    def _must_yield(self, waiting: deque[_Group]) -> bool:
        """Return whether the oldest group must be yielded before another group is taken."""
        behind = sum(len(group.batches) for group in [*waiting][1:])
        is_done = all(future.done() for future in waiting[0].futures)
        return not waiting[-1].lines or behind >= self.workers or is_done

    def _split(self, lines: Sequence[str], first: int) -> _Group:
        """Encode the lines and split their rows into batches of similar length."""
        encoded = {row: self.encode(line) for row, line in enumerate(lines) if line.strip()}
        sources = {row: ids for row, ids in encoded.items() if ids != [EOS]}  # as of invisible characters
        rows = [*sources]
        lengths = [len(ids) for ids in sources.values()]
        max_tokens = batch_tokens(lengths, workers=self.workers, max_tokens=self.max_tokens)
        count = -(-len(rows) // self.max_rows)
        max_rows = -(-len(rows) // max(1, count))  # equal sizes, so that no batch is left with one line
        batches = batches_by_length(lengths, max_tokens=max_tokens, max_rows=max_rows)
        return _Group(lines, first, sources, [[rows[index] for index in batch] for batch in batches])

    def _decode(self, group: _Group, rows: Sequence[int], part: slice | None = None) -> Results:
        """Decode a batch beside others, or only a ``part`` of it, alone."""
        rows = rows[part or slice(None)]
        return self.decode([group.sources[row] for row in rows], [group.first + row for row in rows], part is None)

    def _collect(self, group: _Group, others: Iterable[_Group]) -> Results:
        """Wait for a group and return its results."""
        results: Results = [Translation("")] * len(group.lines)
        for rows, future in zip_longest(group.batches, group.futures):
            longest = group.lines[rows[0]]
            error = None if future is None else future.exception()
            if error is not None and oversized_reason(error, longest) is None:
                raise error
            if future is not None and error is None:
                decoded = future.result()
            else:
                # Several batches at once may need more memory than one, so this one runs after all others.
                for running in [*group.futures, *(future for other in others for future in other.futures)]:
                    running.exception()
                run = partial(self._decode, group, rows)
                decoded = [*run_in_halves(run, [group.lines[row] for row in rows])]
            for row, translation in zip(rows, decoded, strict=True):
                results[row] = translation
        return results


def batch_tokens(lengths: Sequence[int], *, workers: int, max_tokens: int) -> int:
    """Return the maximum number of source pieces per batch with which all workers get about the same work."""
    if workers == 1:
        return max_tokens
    limit = max(min(max_tokens, TOKENS_AT_ONCE), max_tokens // workers)
    total = sum(lengths)
    if total <= LEAST_TOKENS:
        return limit
    rounds = -(-total // (workers * limit))
    even = total // (workers * rounds) + max(lengths)  # plus the longest sentence, so that no extra batch is needed
    return min(limit, max(LEAST_TOKENS, even))
