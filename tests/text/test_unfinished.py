"""Unfinished output of nmt-prepare: kept for the same job only, while it is undamaged, and written by one process."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from nmt.files.checksum import checksum
from nmt.text.pair_counts import NoPairs, PairCounts
from nmt.text.unfinished import PROGRESS, Unfinished, unfinished_folder

JOB = {"text": "a", "pairs": 2}


def with_a_shard(folder: Path) -> tuple[Unfinished, dict[str, Any]]:
    """Return a folder of the job ``JOB`` with one finished shard, and the shard's record."""
    (folder / PROGRESS).mkdir(parents=True)
    unfinished = Unfinished(folder)
    unfinished.begin(JOB)
    (folder / "train-00000.arrow").write_bytes(b"pairs")
    record = {"account": {"kept": 2}, "files": {"train-00000.arrow": checksum(folder / "train-00000.arrow")}}
    unfinished.write("00000", record)
    return unfinished, record


def test_finished_shards_are_kept_for_the_same_job_only(tmp_path: Path) -> None:
    unfinished, record = with_a_shard(tmp_path)
    unfinished.begin(dict(JOB))
    assert unfinished.read("00000") == record
    unfinished.begin({**JOB, "pairs": 3})
    assert unfinished.read("00000") is None
    assert [path.name for path in tmp_path.iterdir()] == [PROGRESS]


@pytest.mark.parametrize("name", ["train-00000.arrow", f"{PROGRESS}/00000.json"])
def test_damaged_shard_or_record_counts_as_missing(name: str, tmp_path: Path) -> None:
    unfinished, record = with_a_shard(tmp_path)
    complete = (tmp_path / name).read_bytes()
    for place in range(len(complete)):
        (tmp_path / name).write_bytes(complete[:place] + bytes([complete[place] ^ 1]) + complete[place + 1 :])
        assert unfinished.read("00000") in (None, record)  # a space may change in the record only
    (tmp_path / name).write_bytes(complete.replace(b"2", b"3").replace(b"p", b"q"))
    assert unfinished.read("00000") is None
    (tmp_path / name).unlink()
    assert unfinished.read("00000") is None


def test_command_that_is_killed_while_it_deletes_continues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of records goes last: without it, the other files look like someone else's."""
    with_a_shard(tmp_path / "out.partial")
    remove, removed = shutil.rmtree, []

    def record(path: Any, *arguments: Any, **options: Any) -> None:
        removed.append((Path(path).name, [*(tmp_path / "out.partial").glob("*.arrow")]))
        remove(path, *arguments, **options)

    monkeypatch.setattr(shutil, "rmtree", record)
    Unfinished(tmp_path / "out.partial").begin({"text": "b"})
    assert removed[0] == (PROGRESS, [])


def test_nothing_is_kept_when_no_pair_is_left(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    message = r"^data\.train: 0 of 2 pairs kept \(2 too long\); relax the filters or give more text$"
    with pytest.raises(NoPairs, match=message), unfinished_folder(tmp_path / "out") as unfinished:
        unfinished.begin({"text": "a"})
        PairCounts(dropped=Counter({"too long": 2})).require_pairs("train")
    assert not (tmp_path / "out.partial").exists() and capsys.readouterr().err == ""
