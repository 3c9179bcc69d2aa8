"""Batches of a sharded corpus: every row once, within the budget, equally many, and from a few shards at a time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from batch_laws import check_continued, check_epoch, check_epochs
from sharded import in_shards, random_pairs

from nmt.text.batches import EpochBatches
from nmt.text.shards import ShardedCorpus
from nmt.text.windows import WindowPlan


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> ShardedCorpus:
    folder: Path = tmp_path_factory.mktemp("windows") / "data"
    corpus = in_shards(folder, random_pairs(1500, longest=30), size=180).corpora["train"]
    assert isinstance(corpus, ShardedCorpus)
    corpus.window = 3
    return corpus


@pytest.mark.parametrize(
    ("max_tokens", "max_sentences", "shuffle", "window", "world_size"),
    [
        *((400, None, True, 3, 1), (400, None, True, 3, 2), (60, 7, True, 2, 3), (5, None, True, 3, 2)),
        *((4000, None, True, 1, 4), (400, 1, True, 4, 2), (400, None, False, 3, 2), (100_000, None, True, 9, 1)),
    ],
)
def test_every_row_occurs_once_within_the_budget_and_the_promised_length(
    corpus: ShardedCorpus,
    max_tokens: int,
    max_sentences: int | None,
    shuffle: bool,
    window: int,
    world_size: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(corpus, "window", window)
    longer = np.maximum(corpus.source_lengths, corpus.target_lengths) + 1
    plan = WindowPlan(corpus, max_tokens=max_tokens, max_sentences=max_sentences, shuffle=shuffle)
    for epoch in range(2):
        check_epoch(plan, world_size, epoch, longer, max_tokens=max_tokens, max_sentences=max_sentences)


def test_batches_are_well_filled_and_pad_little(corpus: ShardedCorpus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "window", 9)
    source, target = corpus.source_lengths + 1, corpus.target_lengths + 1
    batches = list(EpochBatches(WindowPlan(corpus, max_tokens=400)))
    padded = sum(len(rows) * (source[rows].max() + target[rows].max()) for rows in batches)
    assert 1 - (source + target).sum() / padded < 0.15
    fewest = np.maximum(source, target).sum() / 400
    assert fewest / len(batches) > 0.85


def test_epochs_differ_and_are_repeatable(corpus: ShardedCorpus) -> None:
    check_epochs(lambda seed: WindowPlan(corpus, max_tokens=400, seed=seed))


def test_only_the_shards_of_one_window_are_open(corpus: ShardedCorpus) -> None:
    starts, shards = corpus.starts, []
    corpus._open.clear()
    for batch in EpochBatches(WindowPlan(corpus, max_tokens=400)):
        shards.append({int(np.searchsorted(starts, row, side="right")) - 1 for row in batch})
        assert shards[-1] <= set(corpus._open) and len(corpus._open) <= corpus.window
    assert set.union(*shards) == set(range(len(corpus.paths)))


@pytest.mark.parametrize(("rank", "world_size"), [(0, 1), (0, 2), (1, 2)])
def test_continued_epoch_has_the_batches_of_the_uninterrupted_one(
    corpus: ShardedCorpus, rank: int, world_size: int
) -> None:
    check_continued(WindowPlan(corpus, max_tokens=300), rank=rank, world_size=world_size)
