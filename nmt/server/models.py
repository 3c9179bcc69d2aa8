"""Models of a server: each translates the lines of many requests together, in two threads of its own."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, NamedTuple

from nmt.errors import UserError
from nmt.inference.bulk import Failure
from nmt.inference.translation import Translation
from nmt.inference.translator import Translator
from nmt.search.options import SearchOptions
from nmt.search.search import live_hypotheses
from nmt.server.answers import Details, translation_json
from nmt.server.fields import Refused

LINES_AT_ONCE = 64  # maximum of a batch; further lines wait for the next one
LINES_OF_A_REQUEST = 16  # in one batch while others wait, so that a long request does not delay the short ones
MAX_WORK = 10_000  # of a batch: 40 sentences of 50 characters with a beam of 5, well below a second on one core

Result = Translation | dict[str, Any] | Failure
OnResults = Callable[[Sequence[Result]], object]


class Work(NamedTuple):
    """How lines are translated, and what is returned of each: only lines with the same work share a batch."""

    options: SearchOptions
    details: Details | None = None
    """The parts of an answer as JSON; None: the translation itself."""
    markup: bool = False
    """Whether the lines are HTML."""
    prefix: str = ""
    """All translations begin with this text."""

    def weight(self, line: str) -> int:
        """Return the work for a line: its characters, times the hypotheses, times what else is done with them."""
        extra = self.markup + self.options.rewrites + (self.details is not None and self.details.slots)
        return (1 + len(line)) * live_hypotheses(self.options) * (1 + extra)


@dataclass(eq=False)
class WaitingRequest:
    """Lines of a request that wait for their translations; ``taken`` of them are in a batch or finished."""

    lines: Sequence[str]
    work: Work
    on_results: OnResults | None
    future: Future[list[Result]] = field(default_factory=Future)
    results: list[Result] = field(default_factory=list)
    taken: int = 0


class ServedModel:
    """A loaded model and the requests that wait for it. At most ``max_waiting`` lines wait.

    A batch cannot be stopped, so requests of more than ``MAX_WORK`` wait for a thread of their own.
    """

    def __init__(self, translator: Translator, *, max_waiting: int, version: str = "") -> None:
        self.translator = translator
        self.version = version  # fingerprint of the model
        self.max_waiting = max_waiting
        self.waiting = 0  # lines
        self.translated = 0  # lines since the start
        self._short, self._long = deque[WaitingRequest](), deque[WaitingRequest]()
        self._changed = threading.Condition()
        self._ends = False
        queues = (self._short, self._long)
        self._threads = [threading.Thread(target=self._run, args=[queue], daemon=True) for queue in queues]
        for thread in self._threads:
            thread.start()

    def submit(self, lines: Sequence[str], work: Work, on_results: OnResults | None = None) -> Future[list[Result]]:
        """Return the future translations of the lines, in order. Raises Refused if too many lines wait.

        A thread of this model calls ``on_results`` with those of each batch.
        """
        if len(lines) > self.max_waiting:
            raise Refused(413, f"q: {len(lines):,} lines; send at most {self.max_waiting:,} at once")
        request = WaitingRequest(lines, work, on_results)
        with self._changed:
            if self._ends or self.waiting + len(lines) > self.max_waiting:
                raise Refused(429, "too many lines wait; try again in some seconds", {"Retry-After": "2"})
            self.waiting += len(lines)
            (self._long if sum(map(work.weight, lines)) > MAX_WORK else self._short).append(request)
            self._changed.notify_all()
        return request.future

    def close(self) -> None:
        """End the threads. Requests that still wait are cancelled."""
        with self._changed:
            self._ends = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _run(self, requests: deque[WaitingRequest]) -> None:
        while batch := self._next_batch(requests):
            try:
                self._translate(batch)
            except BaseException as error:  # such as a defect of a library: the thread must go on
                for request, _ in batch:
                    if not request.future.done() and request.future.set_running_or_notify_cancel():
                        request.future.set_exception(error)
        for request in requests:
            request.future.cancel()

    def _next_batch(self, requests: deque[WaitingRequest]) -> list[tuple[WaitingRequest, Sequence[str]]]:
        """Wait for requests, and return the next lines of some of them; an empty list ends the thread."""
        with self._changed:
            while True:
                self._changed.wait_for(lambda: requests or self._ends)
                if self._ends:
                    return []
                if batch := [*self._take(requests)]:
                    return batch

    def _take(self, requests: deque[WaitingRequest]) -> Iterator[tuple[WaitingRequest, Sequence[str]]]:
        """Take lines of the requests in turn, as long as they share their work with the first and fit in a batch."""
        room = LINES_AT_ONCE
        capacity = MAX_WORK  # a line that exceeds it is a batch of its own
        work: Work | None = None
        for _ in range(len(requests)):
            request = requests[0]
            if work is not None and request.work != work:
                return
            left = request.lines[request.taken :]
            if request.future.done():  # failed in an earlier batch, or cancelled
                requests.popleft()
                self.waiting -= len(left)
                continue
            shares = len(requests) > 1 or request.on_results is not None
            left = left[: min(room, LINES_OF_A_REQUEST if shares else room)]
            totals = [*accumulate(map(request.work.weight, left))]
            count = bisect_right(totals, capacity) or (work is None)
            if not count:
                return
            requests.popleft()
            request.taken += count
            self.waiting -= count
            room -= count
            capacity -= totals[count - 1]
            if request.taken < len(request.lines):
                requests.append(request)
            work = request.work
            yield request, left[:count]

    def _translate(self, batch: Sequence[tuple[WaitingRequest, Sequence[str]]]) -> None:
        work = batch[0][0].work
        lines = [line for _, of_request in batch for line in of_request]
        failures: dict[int, str] = {}
        translations = self.translator.translate(
            lines,
            work.options,
            prefixes=[work.prefix] * len(lines) if work.prefix else None,
            alignments=work.details is not None and work.details.needs_alignments,
            markup=work.markup,
            on_failure=failures.__setitem__,
        )
        with self._changed:
            self.translated += len(lines)
        results = (
            Failure(failures[row]) if row in failures else self._result(line, translation, work.details)
            for row, (line, translation) in enumerate(zip(lines, translations, strict=True))
        )
        for request, of_request in batch:
            new = [next(results) for _ in of_request]
            request.results += new
            if request.on_results is not None:
                request.on_results(new)
            if len(request.results) == len(request.lines) and request.future.set_running_or_notify_cancel():
                request.future.set_result(request.results)

    def _result(self, line: str, translation: Translation, details: Details | None) -> Result:
        if details is None:
            return translation
        try:
            return translation_json(self.translator, line, translation, details)
        except UserError as error:
            return Failure(str(error))
