"""Several batches at once: the same results as one after the other, in order, with bounded work in advance."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.errors import SourceTooLong, UserError
from nmt.inference import bulk
from nmt.inference.bulk import Bulk, Failure, Results, Sources, batch_tokens
from nmt.inference.translation import Translation

ROOT = Path(__file__).resolve().parents[2]
LINES = st.lists(st.sampled_from(["", " ", "5", "1 2", "3 4 5 6", "7 8 9"]), max_size=30)


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "LEAST_TOKENS", 2)
    monkeypatch.setattr(bulk, "TOKENS_AT_ONCE", 8)


@dataclass
class Reverser:
    """Translates by reversing the numbers of a line; each batch takes a random time."""

    seed: int = 0
    running: int = 0
    most_running: int = 0
    alone: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def decode(self, sources: Sources, rows: Sequence[int], beside_others: bool) -> list[Translation]:
        assert len(sources) <= 9  # max_rows
        with self.lock:
            self.running += 1
            self.alone += not beside_others
            self.most_running = max(self.most_running, self.running)
        time.sleep(Random(f"{self.seed}{sources}").random() / 1000)
        with self.lock:
            self.running -= 1
        if [7, 7] in sources:
            raise SourceTooLong("too long")
        return [Translation(" ".join(map(str, reversed(ids)))) for ids in sources]

    def bulk(self, workers: int) -> Bulk:
        limits = {"max_tokens": 12, "max_rows": 9}
        return Bulk(encode=encode, decode=self.decode, workers=workers, **limits)


def encode(line: str) -> list[int]:
    return [int(number) for number in line.split()]


def reverse(line: str) -> str:
    return " ".join(line.split()[::-1])


def texts(groups: Iterator[tuple[Sequence[str], Results]]) -> list[list[str]]:
    return [[result.text for result in results if isinstance(result, Translation)] for _, results in groups]


@given(st.lists(LINES, max_size=5), st.integers(1, 4), st.integers(0, 9))
def test_any_number_of_workers_gives_every_line_in_order(groups: list[list[str]], workers: int, seed: int) -> None:
    reverser = Reverser(seed)
    assert texts(reverser.bulk(workers).translate(groups)) == [[reverse(line) for line in lines] for lines in groups]
    assert reverser.most_running <= workers


def test_batches_run_at_the_same_time() -> None:
    meeting = threading.Barrier(3, timeout=20)

    def decode(sources: Sources, rows: Sequence[int], beside_others: bool) -> list[Translation]:
        meeting.wait()  # passes only if three batches are there
        return [Translation("")] * len(sources)

    three = Bulk(encode=encode, decode=decode, workers=3, max_tokens=4, max_rows=9)
    assert len(texts(three.translate([["1 2 3 4"] * 6]))[0]) == 6


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_few_groups_are_taken_in_advance(workers: int) -> None:
    """At most ``workers`` batches wait behind the group that the reader gets next; here, a group is two batches."""
    taken = 0

    def groups() -> Iterator[Sequence[str]]:
        nonlocal taken
        for _ in range(40):
            taken += 1
            yield ["1 2 3 4", "5 6 7 8", "1 2 3", "4 5 6"]

    for read, _ in enumerate(Reverser().bulk(workers).translate(groups()), start=1):
        assert taken - read <= (0 if workers == 1 else workers)
    assert (read, taken) == (40, 40)


def test_an_empty_group_is_answered_before_the_next_group_is_taken() -> None:
    answered: list[list[str]] = []

    def groups() -> Iterator[Sequence[str]]:
        for number in range(5):
            yield ["1 2 3 4"] * 9
            yield []
            assert len(answered) == 2 * number + 2  # both groups, before this one

    for group in Reverser().bulk(3).translate(groups()):
        answered += texts(iter([group]))
    assert answered == [["4 3 2 1"] * 9, []] * 5


def test_a_single_batch_runs_alone_in_the_calling_thread() -> None:
    reverser = Reverser()
    assert texts(reverser.bulk(3).translate([["5"], ["1 2"], [""]])) == [["5"], ["2 1"], [""]]
    assert reverser.alone == 2


@pytest.mark.parametrize("workers", [1, 3])
def test_an_error_of_one_batch_is_raised_once(workers: int) -> None:
    def decode(sources: Sources, rows: Sequence[int], beside_others: bool) -> list[Translation]:
        if [6] in sources:
            raise ValueError("broken")
        return [Translation("")] * len(sources)

    broken = Bulk(encode=encode, decode=decode, workers=workers, max_tokens=4, max_rows=9)
    groups = broken.translate([["1 2"] * 8, ["1 2", "6", "3"] * 3, ["1 2"] * 8])
    assert len(next(groups)[1]) == 8
    with pytest.raises(ValueError, match="^broken$"):
        next(groups)
    assert list(groups) == []


@pytest.mark.parametrize("workers", [1, 3])
def test_an_error_of_the_input_comes_after_the_lines_before_it(workers: int) -> None:
    def groups() -> Iterator[Sequence[str]]:
        yield ["1 2"] * 9
        yield ["13"]
        raise UserError("bad line")

    translated = Reverser().bulk(workers).translate(groups())
    assert texts(iter([next(translated), next(translated)])) == [["2 1"] * 9, ["13"]]
    with pytest.raises(UserError, match="bad line"):
        next(translated)


@pytest.mark.parametrize("workers", [1, 3])
def test_lines_that_are_too_long_are_failures_in_their_places(workers: int) -> None:
    failure = Failure("too long", SourceTooLong)
    groups = [["1 2"] * 8 + ["7 7"], ["7 7", "13"]]
    first, second = Reverser().bulk(workers).translate(groups)
    assert first == (groups[0], [Translation("2 1")] * 8 + [failure])
    assert second == (groups[1], [failure, Translation("13")])


def test_a_batch_that_does_not_fit_beside_others_runs_alone() -> None:
    """Only two sentences fit into memory at a time: nothing is refused, although several batches start at once."""
    lock, held, refusals = threading.Lock(), 0, 0

    def decode(sources: Sources, rows: Sequence[int], beside_others: bool) -> list[Translation]:
        nonlocal held, refusals
        with lock:
            held += len(sources)
            fits = held <= 2
            refusals += not fits
        time.sleep(0.002)
        with lock:
            held -= len(sources)
        if not fits:
            raise MemoryError
        return [Translation(" ".join(map(str, reversed(ids)))) for ids in sources]

    small = Bulk(
        encode=encode,
        decode=decode,
        workers=3,
        max_tokens=8,
        max_rows=9,
    )
    groups = [["1 2", "3 4 5 6"] * 6, ["7 8 9"] * 5]
    assert texts(small.translate(groups)) == [[reverse(line) for line in lines] for lines in groups]
    assert refusals


def test_leaving_early_ends_all_threads() -> None:
    """Batches that wait never start."""
    before, ended = threading.active_count(), []

    def decode(sources: Sources, rows: Sequence[int], beside_others: bool) -> list[Translation]:
        if sources[0] != [1]:
            time.sleep(0.05)
            ended.append(sources)
        return [Translation("")] * len(sources)

    two = Bulk(encode=encode, decode=decode, workers=2, max_tokens=1, max_rows=9)
    groups = two.translate([["1", "1"], *[["2", "2", "2", "2"]] * 50])
    next(groups)
    groups.close()
    assert threading.active_count() == before and len(ended) <= 4


COMMAND = """
import sys, time
from contextlib import closing
from nmt.commands.shell import run
from nmt.inference.bulk import Bulk
from nmt.inference.translation import Translation

def decode(sources, rows, beside_others):
    sys.stderr.write("ready\\n")  # one write, as print would make two that threads can mix
    time.sleep(0.3)
    return [Translation("")] * len(sources)

def command(_):
    bulk = Bulk(encode=lambda line: [1] * 100, decode=decode, workers=3, max_tokens=500, max_rows=9)
    with closing(bulk.translate([["a"] * 30] * 100)) as groups:
        for _ in groups:
            pass
run(command, [])
"""


def test_a_signal_ends_all_threads() -> None:
    child = subprocess.Popen([sys.executable, "-c", COMMAND], stderr=subprocess.PIPE, cwd=ROOT, text=True)
    assert child.stderr and child.stderr.readline() == "ready\n"
    child.send_signal(signal.SIGTERM)
    lines = child.communicate(timeout=50)[1].splitlines()
    assert child.returncode == 143 and {*lines} - {"ready"} == {"stopped by SIGTERM"}


@pytest.mark.parametrize("workers", [2, 3, 16])
def test_a_group_is_split_into_equal_shares(workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    limit = batch_tokens([15] * 512, workers=workers, max_tokens=4096)
    sizes = [len(batch) for batch in bulk.batches_by_length([15] * 512, max_tokens=limit)]
    assert limit <= max(1024, 4096 // workers) and len(sizes) % workers == 0
    assert max(sizes) - min(sizes) <= len(sizes)
    assert batch_tokens([15] * 512, workers=1, max_tokens=4096) == 4096  # all threads share one batch
