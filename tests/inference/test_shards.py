"""Shards: results in the order of the input, each line once, whatever fails, and finished shards are kept."""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.errors import UserError
from nmt.inference.shards import Done, Shard, ShardStore, open_store, run_shards
from nmt.system.processes import ATTEMPTS, Failed

FINISHED = Done(2, ["A", "B"], ["0-0", ""], [(1, "too long")])


def make_shards(lines: list[str], size: int) -> Iterator[Shard]:
    for number, first in enumerate(range(0, len(lines), size)):
        yield Shard(number, first, lines[first : first + size])


def upper(shard: Shard) -> Done:
    return Done(len(shard.lines), [line.upper() for line in shard.lines], [], [])


@dataclass
class Unreliable:
    """Workers that end in a random order. ``failures`` is the number of times that each shard fails before it is done.

    ``most`` is the largest number of shards that ran at the same time.
    """

    count: int
    failures: Counter[int] = field(default_factory=Counter)
    random: Random = field(default_factory=lambda: Random(1))
    running: list[Shard] = field(default_factory=list)
    done: list[int] = field(default_factory=list)
    most: int = 0
    closed: bool = False

    def start(self, shard: Shard) -> None:
        self.running.append(shard)
        self.most = max(self.most, len(self.running))

    def wait(self) -> list[tuple[int, Done | Failed]]:
        ended = self.random.sample(self.running, self.random.randint(1, len(self.running)))
        return [(shard.number, self.end(shard)) for shard in ended]

    def end(self, shard: Shard) -> Done | Failed:
        self.running.remove(shard)
        if self.failures[shard.number]:
            self.failures[shard.number] -= 1
            return Failed("broken")
        self.done.append(shard.number)
        return upper(shard)

    def dismiss(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True


def run(lines: list[str], size: int, folder: Path, workers: Unreliable) -> list[str]:
    results = run_shards(make_shards(lines, size), ShardStore(folder), workers)
    return [line for done in results for line in done.output]


@given(st.lists(st.sampled_from("abcdef"), max_size=40), st.integers(1, 7), st.integers(1, 4), st.data())
def test_every_line_comes_once_and_in_order(lines: list[str], size: int, count: int, data: st.DataObject) -> None:
    failures = data.draw(st.lists(st.integers(0, ATTEMPTS - 1), min_size=len(lines), max_size=len(lines)))
    workers = Unreliable(count, Counter(dict(enumerate(failures))), Random(data.draw(st.integers(0, 99))))
    with TemporaryDirectory() as folder:
        assert run(lines, size, Path(folder), workers) == [line.upper() for line in lines]
        assert sorted(workers.done) == list(range(-(-len(lines) // size)))
        assert workers.most <= count and workers.closed and not workers.running
        again = Unreliable(count)
        assert run(lines, size, Path(folder), again) == [line.upper() for line in lines] and again.done == []


def test_results_are_yielded_as_soon_as_those_before_them_are(tmp_path: Path) -> None:
    workers = Unreliable(1)
    read = 0
    for read, _ in enumerate(run_shards(make_shards(list("abcdefgh"), 2), ShardStore(tmp_path), workers), start=1):
        assert len(workers.done) == read
    assert read == 4


def test_shard_that_always_fails_stops_the_rest_and_keeps_what_is_finished(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = list("abcdef")
    broken = Unreliable(1, Counter({2: ATTEMPTS}))
    with pytest.raises(UserError, match=r"^lines 5 to 6: failed 3 times \(broken\); give fewer workers=$"):
        run(lines, 2, tmp_path, broken)
    assert capsys.readouterr().err == "warning: lines 5 to 6: broken; trying them again\n" * (ATTEMPTS - 1)
    assert broken.closed
    repaired = Unreliable(2)
    assert run(lines, 2, tmp_path, repaired) == list("ABCDEF") and repaired.done == [2]


def test_workers_that_die_at_the_start_do_not_use_up_the_attempts_of_one_shard(tmp_path: Path) -> None:
    class DiesFirst(Unreliable):
        """A worker that dies three times before one lives."""

        deaths = ATTEMPTS

        def end(self, shard: Shard) -> Done | Failed:
            if self.deaths:
                self.running.remove(shard)
                self.deaths -= 1
                return Failed("killed")
            return super().end(shard)

    workers = DiesFirst(1)
    assert run(list("abcdef"), 1, tmp_path, workers) == list("ABCDEF")
    assert workers.done == [3, 0, 1, 2, 4, 5]


def test_error_that_another_attempt_would_repeat_is_raised_at_once(tmp_path: Path) -> None:
    workers = Unreliable(1)
    workers.wait = lambda: [(workers.running.pop().number, Failed("runs/x: gone", final=True))]  # type: ignore[method-assign]
    with pytest.raises(UserError, match=r"^runs/x: gone$"):
        run(["a"], 1, tmp_path, workers)


def test_changed_lines_are_translated_again(tmp_path: Path) -> None:
    run(list("abcdef"), 2, tmp_path, Unreliable(1))
    workers = Unreliable(1)
    assert run(list("abXdefg"), 2, tmp_path, workers) == list("ABXDEFG")
    assert workers.done == [1, 3]


def test_stored_result_is_read_back_and_a_damaged_one_is_missing(tmp_path: Path) -> None:
    shard, store = Shard(3, 6, ["a", "b"]), ShardStore(tmp_path)
    assert store.load(3, shard.fingerprint) is None
    store.save(shard, FINISHED)
    assert store.load(3, shard.fingerprint) == FINISHED
    (file,) = tmp_path.iterdir()
    stored = file.read_bytes()
    for length in range(0, len(stored), 9):
        file.write_bytes(stored[:length])
        assert store.load(3, shard.fingerprint) is None
    random = Random(1)
    for _ in range(40):
        changed = bytearray(stored)
        changed[random.randrange(len(stored))] ^= random.randint(1, 255)
        file.write_bytes(changed)
        assert store.load(3, shard.fingerprint) in (None, FINISHED)  # a space may change in the header only
        file.write_bytes(stored)
    assert store.load(3, shard.fingerprint) == FINISHED


def test_full_disk_stops_with_one_line_and_keeps_finished_shards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = os.replace

    def replace(source: Path, target: Path) -> None:
        if len(workers.done) == 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        original(source, target)

    workers, lines = Unreliable(1), list("abcdef")
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", replace)
        with pytest.raises(UserError, match=r"00000002.shard: cannot write: No space left on device; free"):
            run(lines, 1, tmp_path, workers)
    again = Unreliable(1)
    assert run(lines, 1, tmp_path, again) == list("ABCDEF") and again.done == [2, 3, 4, 5]


def test_folder_is_deleted_only_when_its_shards_are_used_or_missing(tmp_path: Path) -> None:
    folder, shard = tmp_path / "out.shards", Shard(0, 0, ["a", "b"])
    with pytest.raises(ValueError, match="stop"), open_store(folder, {"beam": 5}):
        raise ValueError("stop")
    assert not folder.exists()
    with pytest.raises(ValueError, match="stop"), open_store(folder, {"beam": 5}) as store:
        store.save(shard, FINISHED)
        raise ValueError("stop")
    with open_store(folder, {"beam": 5}) as store:
        assert store.count() == 1 and store.load(0, shard.fingerprint) == FINISHED
    assert not folder.exists()


def test_shards_of_another_call_are_refused_and_stay(tmp_path: Path) -> None:
    folder = tmp_path / "out.shards"
    call = {"beam": 5, "scores": False, "glossary": "1"}
    with pytest.raises(ValueError, match="stop"), open_store(folder, call) as store:
        store.save(Shard(0, 0, ["a", "b"]), FINISHED)
        raise ValueError("stop")
    before = {file: file.read_bytes() for file in folder.glob("*.shard")}
    changes = r"holds shards of another call \(beam=5, now beam=3\); repeat that"
    for settings, problem in (
        ({"beam": 3, "scores": False}, changes),
        (
            {"beam": 5, "scores": False, "glossary": "0"},
            "holds shards of another call, whose glossary was different; restore it to continue, or delete the folder",
        ),
        ({"beam": 3, "scores": False, "glossary": "0"}, r"holds shards of another call \(beam=5, now beam=3\)"),
        ({"beam": 5}, "holds shards of another call"),  # an earlier version may know fewer settings
    ):
        with pytest.raises(UserError, match=f"out.shards: {problem}"), open_store(folder, settings):
            pytest.fail("the block ran")
    (folder / "settings.json").write_text("{")
    with pytest.raises(UserError, match=r"settings.json: damaged; delete"), open_store(folder, {"beam": 3}):
        pytest.fail("the block ran")
    assert {file: file.read_bytes() for file in folder.glob("*.shard")} == before
