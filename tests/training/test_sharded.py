"""Training on shards: it starts without reading them all, resumes bit for bit, and stops at a damaged one."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny import check_resumed, on_prepared

from nmt.text import shards

pytestmark = pytest.mark.thorough


@pytest.fixture
def words(run: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the arguments of a tiny run on ten shards, which training reads two at a time."""
    monkeypatch.setattr(shards, "WINDOW_PAIRS", 6)
    return [*on_prepared("mine", "shard_pairs=3"), "batches.max_tokens=60", "batches.bpe_dropout=0.3"]


def test_stopped_run_on_shards_equals_the_uninterrupted_one(words: list[str]) -> None:
    assert len([*Path("mine").glob("train-*.arrow")]) == 10
    check_resumed(words, [13])  # in the second epoch
