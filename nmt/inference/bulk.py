"""Translate groups of lines in order, several batches at once, and report the lines that have no result.

n threads with one batch each are faster than n threads that share every step of one batch: 1.3 to 1.4 times on two
cores (benchmarks/results/decode_at_once.md). A group that is a single batch, such as one line, gets all threads for
itself.
"""

from __future__ import annotations

import contextlib
import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import Any, NamedTuple, TypeVar

from nmt.data.words import count_words
from nmt.errors import SourceTooLong, UserError, counted
from nmt.inference.translation import Translation
from nmt.search.search import batches_by_length
from nmt.system.machine import is_out_of_memory
from nmt.text.specials import EOS

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


def oversized_reason(error: Exception, line: str) -> str | None:
    """Return the reason if ``line`` is too long for the model or the machine; None if ``error`` has another cause."""
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


TOKENS_AT_ONCE = 1024  # of each of several batches: four of them take as much memory as one batch of 4096
LEAST_TOKENS = 256  # smaller batches spend most of their time reading the weights
WAKE_UP_S = 0.5  # a signal that arrives just before a thread waits does not wake it

Sources = list[list[int]]
Results = list[Translation | Failure]
Decode = Callable[[Sources, Sequence[int], Event | None], Results]
"""Translates one batch, given the rows of its lines, from 0 over all groups. It runs alone if the event is None.
Otherwise others run beside it, and it ends with Cancelled once the event is set."""


class Cancelled(Exception):
    """The translations of this batch are no longer needed."""


class Stoppable(NamedTuple):
    """A search engine whose next step raises Cancelled once ``stop`` is set."""

    engine: Any
    stop: Event

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    def step(self, *arguments: Any) -> Any:
        if self.stop.is_set():
            raise Cancelled
        return self.engine.step(*arguments)


@dataclass(eq=False)
class _Job:
    """A batch for the threads, and its results, or the error that it ended with, once one of them has run it."""

    run: Callable[[], Results]
    outcome: Results | BaseException | None = None
    _ended: SimpleQueue[None] = field(default_factory=SimpleQueue)

    def end(self, outcome: Results | BaseException) -> None:
        self.outcome = outcome
        self._ended.put(None)

    def wait(self) -> None:
        """Wait until the job has ended, and handle signals at least every ``WAKE_UP_S`` seconds."""
        while self.outcome is None:
            with contextlib.suppress(Empty):
                self._ended.get(timeout=WAKE_UP_S)


class _Threads:
    """A thread pool that a signal cannot block.

    A signal raises an exception anywhere in the main thread. If that is just after the main thread has locked a
    semaphore or a condition of Python's own ThreadPoolExecutor, it stays locked, and the executor's threads wait for it
    forever. Here the threads share only queues without such locks with the main thread, and never block the exit.
    """

    def __init__(self, number: int) -> None:
        self._stop = Event()
        self._jobs = SimpleQueue[_Job | None]()
        self._threads: list[Thread] = []
        for _ in range(number):
            thread = Thread(target=self._work, name="batch", daemon=True)
            thread.start()
            self._threads.append(thread)

    def submit(self, decode: Decode, sources: Sources, rows: Sequence[int]) -> _Job:
        job = _Job(partial(decode, sources, rows, self._stop))
        self._jobs.put(job)
        return job

    def close(self) -> None:
        """Stop the jobs that run, drop those that wait, and end the threads."""
        self._stop.set()
        self._jobs.put(None)
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        while job := self._jobs.get():
            try:
                job.end(Cancelled() if self._stop.is_set() else job.run())
            except BaseException as error:
                job.end(error)
        self._jobs.put(None)  # for the other threads


@dataclass
class _Group:
    """A group of lines, the source of each line that has one, and the batches that its rows were split into."""

    lines: Sequence[str]
    first: int
    """Number of lines before the group."""
    _: KW_ONLY
    sources: dict[int, list[int]] = field(default_factory=dict)
    refused: dict[int, Failure] = field(default_factory=dict)
    batches: list[list[int]] = field(default_factory=list)
    jobs: list[_Job | None] = field(default_factory=list)
    """None for a batch that has to run alone."""

    def batch(self, rows: Sequence[int]) -> tuple[Sources, list[int]]:
        """Return the sources of these rows of the group, and the rows counted over all groups."""
        return [self.sources[row] for row in rows], [self.first + row for row in rows]

    def is_done(self) -> bool:
        return all(job is not None and job.outcome is not None for job in self.jobs)


@dataclass(frozen=True, kw_only=True)
class Bulk:
    """Splits groups of lines into batches and decodes up to ``workers`` of them at once.

    ``encode`` returns the piece ids of a line, and raises SourceTooLong for one that the model cannot hold.
    ``max_tokens`` and ``max_rows`` limit a batch: its source pieces with padding, and its sentences.
    """

    encode: Callable[[str], list[int]]
    decode: Decode
    workers: int
    max_tokens: int
    max_rows: int
    process: int = field(default_factory=os.getpid, init=False)

    def translate(self, groups: Iterable[Sequence[str]]) -> Generator[tuple[Sequence[str], Results]]:
        """Yield each group, in order, with the translation or failure of each of its lines.

        The next group is taken while fewer than ``workers`` batches wait behind the oldest group. An error of
        ``groups`` is raised after the translations of the groups before it.
        """
        iterator = iter(groups)
        failure = None
        done = 0
        threads: _Threads | None = None  # needed from the first group with several batches on
        waiting: deque[_Group] = deque()
        try:
            while failure is None:
                try:
                    lines = next(iterator)
                except StopIteration:
                    break
                except Exception as error:
                    failure = error
                    break
                group = self._split(lines, done)
                done += len(lines)
                if not threads and self.workers > 1 and len(group.batches) > 1:
                    threads = _Threads(self.workers)
                group.jobs = [
                    threads.submit(self.decode, *group.batch(rows)) if threads else None for rows in group.batches
                ]
                waiting.append(group)
                while waiting and self._must_yield(waiting):
                    yield self._collect(waiting.popleft(), waiting)
            while waiting:
                yield self._collect(waiting.popleft(), waiting)
        finally:
            if threads and os.getpid() == self.process:  # threads end in a fork
                threads.close()
        if failure is not None:
            raise failure

    def _must_yield(self, waiting: deque[_Group]) -> bool:
        """Return whether the oldest group must be yielded before another group is taken."""
        behind = sum(len(group.batches) for group in list(waiting)[1:])
        return not waiting[-1].lines or behind >= self.workers or None in waiting[0].jobs or waiting[0].is_done()

    def _split(self, lines: Sequence[str], first: int) -> _Group:
        """Encode the lines and split their rows into batches of similar length."""
        group = _Group(lines, first)
        for row, line in enumerate(lines):
            if not line.strip():
                continue
            try:
                ids = self.encode(line)
            except Exception as error:
                reason = oversized_reason(error, line)
                if reason is None:
                    raise
                group.refused[row] = Failure(reason, SourceTooLong)
                continue
            if ids != [EOS]:  # else nothing was left, as of invisible characters
                group.sources[row] = ids
        rows = list(group.sources)
        lengths = [len(ids) for ids in group.sources.values()]
        max_tokens = batch_tokens(lengths, workers=self.workers, max_tokens=self.max_tokens)
        count = -(-len(rows) // self.max_rows)
        max_rows = -(-len(rows) // max(1, count))  # equal sizes, so that no batch is left with one line
        batches = batches_by_length(lengths, max_tokens=max_tokens, max_rows=max_rows)
        group.batches = [[rows[index] for index in batch] for batch in batches]
        return group

    def _collect(self, group: _Group, others: Iterable[_Group]) -> tuple[Sequence[str], Results]:
        """Wait for a group and return its lines and results."""
        if os.getpid() != self.process:
            raise UserError("translate_groups: began before this process was forked; call it again here")
        results = [group.refused.get(row, Translation("")) for row in range(len(group.lines))]
        for rows, job in zip(group.batches, group.jobs, strict=True):
            decoded = None if job is None else self._results(job, group.lines[rows[0]])
            if decoded is None:
                # Several batches at once may need more memory than one, so this one runs after all others.
                for other in (group, *others):
                    for running in filter(None, other.jobs):
                        running.wait()
                run = partial(self._decode_alone, *group.batch(rows))
                decoded = [*run_in_halves(run, [group.lines[row] for row in rows])]
            for row, translation in zip(rows, decoded, strict=True):
                results[row] = translation
        return group.lines, results

    def _decode_alone(self, sources: Sources, rows: Sequence[int], part: slice) -> Results:
        return self.decode(sources[part], rows[part], None)

    @staticmethod
    def _results(job: _Job, longest: str) -> Results | None:
        """Return the translations of a batch, or None if it was too large for the machine."""
        job.wait()
        if isinstance(job.outcome, BaseException):
            if isinstance(job.outcome, Exception) and oversized_reason(job.outcome, longest) is not None:
                return None
            raise job.outcome
        return job.outcome


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
