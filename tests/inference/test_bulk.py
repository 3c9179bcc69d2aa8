"""Several batches at once: the same results as one after the other, in order, with bounded work in advance."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.errors import SourceTooLong, UserError
from nmt.inference import bulk
from nmt.inference.bulk import Bulk, Decode, Failure, Results, Sources
from nmt.inference.translation import Translation

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
    lock: threading.Lock = field(default_factory=threading.Lock)

    def decode(self, sources: Sources, rows: Sequence[int], beside_others: bool) -> list[Translation]:
        assert len(sources) <= 9  # max_rows
        with self.lock:
            self.running += 1
            self.most_running = max(self.most_running, self.running)
        time.sleep(Random(f"{self.seed}{sources}").random() / 1000)
        with self.lock:
            self.running -= 1
        if [7, 7] in sources:
            raise SourceTooLong("too long")
        return [Translation(" ".join(map(str, reversed(ids)))) for ids in sources]

    def bulk(self, workers: int) -> Bulk:
        return bulk_of(self.decode, workers, 12)


def bulk_of(decode: Decode, workers: int, max_tokens: int) -> Bulk:
    def encode(line: str) -> list[int]:
        return [*map(int, line.split())]

    return Bulk(encode=encode, decode=decode, workers=workers, max_tokens=max_tokens, max_rows=9)


def texts(groups: Iterable[Results]) -> list[list[str]]:
    return [[result.text for result in results if isinstance(result, Translation)] for results in groups]


@given(st.lists(LINES, max_size=5), st.integers(1, 4), st.integers(0, 9))
def test_any_number_of_workers_gives_every_line_in_order(groups: list[list[str]], workers: int, seed: int) -> None:
    reverser = Reverser(seed)
    expected = [[" ".join(line.split()[::-1]) for line in lines] for lines in groups]
    assert texts(reverser.bulk(workers).translate(groups)) == expected
    assert reverser.most_running <= workers


def test_batches_run_at_the_same_time_and_those_that_do_not_fit_alone() -> None:
    meeting = threading.Barrier(3, timeout=20)

    def decode(sources: Sources, rows: Sequence[int], beside_others: bool) -> Results:
        if beside_others:
            meeting.wait()  # passes only if three batches are there
            raise MemoryError
        return [Translation(" ".join(map(str, reversed(ids)))) for ids in sources]

    assert texts(bulk_of(decode, 3, 4).translate([["1 2 3 4"] * 6])) == [["4 3 2 1"] * 6]


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
        answered += texts([group])
    assert answered == [["4 3 2 1"] * 9, []] * 5


@pytest.mark.parametrize("workers", [1, 3])
def test_an_error_of_one_batch_is_raised_once(workers: int) -> None:
    def decode(sources: Sources, rows: Sequence[int], beside_others: bool) -> list[Translation]:
        if [6] in sources:
            raise ValueError("broken")
        return [Translation("")] * len(sources)

    groups = bulk_of(decode, workers, 4).translate([["1 2"] * 8, ["1 2", "6", "3"] * 3, ["1 2"] * 8])
    assert len(next(groups)) == 8
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
    assert texts([next(translated), next(translated)]) == [["2 1"] * 9, ["13"]]
    with pytest.raises(UserError, match="bad line"):
        next(translated)


@pytest.mark.parametrize("workers", [1, 3])
def test_lines_that_are_too_long_are_failures_in_their_places(workers: int) -> None:
    failure = Failure("too long", SourceTooLong)
    first, second = Reverser().bulk(workers).translate([["1 2"] * 8 + ["7 7"], ["7 7", "13"]])
    assert first == [Translation("2 1")] * 8 + [failure]
    assert second == [failure, Translation("13")]


def test_leaving_early_ends_all_threads() -> None:
    """Batches that wait never start."""
    before, ended = threading.active_count(), []

    def decode(sources: Sources, rows: Sequence[int], beside_others: bool) -> list[Translation]:
        if sources[0] != [1]:
            time.sleep(0.05)
            ended.append(sources)
        return [Translation("")] * len(sources)

    groups = bulk_of(decode, 2, 1).translate([["1", "1"], *[["2", "2", "2", "2"]] * 50])
    next(groups)
    groups.close()
    assert threading.active_count() == before and len(ended) <= 4
