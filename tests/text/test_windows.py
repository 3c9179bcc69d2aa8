"""Batches of a sharded corpus: every row once, within the budget, equally many, and resumed in any number of ranks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sharded import in_shards, random_pairs

from nmt.text.shards import ShardedCorpus
from nmt.text.windows import WindowedBatches


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> ShardedCorpus:
    folder: Path = tmp_path_factory.mktemp("windows") / "data"
    corpus = in_shards(folder, random_pairs(1500, longest=30), size=180).corpora["train"]
    assert isinstance(corpus, ShardedCorpus)
    corpus.window = 3
    return corpus


def samplers(corpus: ShardedCorpus, world_size: int, **settings: Any) -> list[WindowedBatches]:
    return [WindowedBatches(corpus, rank=rank, world_size=world_size, **settings) for rank in range(world_size)]


def in_turn(shares: list[list[list[int]]]) -> list[list[int]]:
    """Return the batches of all ranks in the order of the updates."""
    return [batch for batches in zip(*shares, strict=True) for batch in batches]


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
    settings = {"max_tokens": max_tokens, "max_sentences": max_sentences, "shuffle": shuffle}
    ranks = samplers(corpus, world_size, **settings)
    promised = len(ranks[0])
    for epoch in range(2):
        for sampler in ranks:
            sampler.set_epoch(epoch)
        shares = [list(sampler) for sampler in ranks]
        assert {len(share) for share in shares} == {len(sampler) for sampler in ranks} == {promised}
        batches = in_turn(shares)
        rows = [row for batch in batches for row in batch]
        if len(batches) <= len(corpus):
            assert sorted(rows) == list(range(len(corpus)))
        else:  # all batches have one row
            assert set(rows) == set(range(len(corpus))) and len(batches) < len(corpus) + world_size
        for batch in batches:
            assert 1 <= len(batch) <= (max_sentences or len(corpus))
            assert len(batch) == 1 or len(batch) * longer[batch].max() <= max_tokens


def test_batches_are_well_filled_and_pad_little(corpus: ShardedCorpus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "window", 9)
    source, target = corpus.source_lengths + 1, corpus.target_lengths + 1
    batches = list(WindowedBatches(corpus, max_tokens=400))
    padded = sum(len(rows) * (source[rows].max() + target[rows].max()) for rows in batches)
    assert 1 - (source + target).sum() / padded < 0.15
    fewest = np.maximum(source, target).sum() / 400
    assert fewest / len(batches) > 0.85


def test_epochs_differ_and_are_repeatable(corpus: ShardedCorpus) -> None:
    def epoch(seed: int, number: int) -> list[list[int]]:
        sampler = WindowedBatches(corpus, max_tokens=400, seed=seed)
        sampler.set_epoch(number)
        assert list(sampler) == list(sampler)
        return list(sampler)

    assert epoch(1, 3) == epoch(1, 3)
    assert epoch(1, 3) != epoch(1, 4)
    assert epoch(1, 3) != epoch(2, 3)
    first, second = ({frozenset(rows) for rows in epoch(1, number)} for number in (0, 1))
    assert len(first & second) < 0.1 * len(first)


def test_only_the_shards_of_one_window_are_open(corpus: ShardedCorpus) -> None:
    starts, shards = corpus.starts, []
    corpus._open.clear()
    for batch in WindowedBatches(corpus, max_tokens=400):
        shards.append({int(np.searchsorted(starts, row, side="right")) - 1 for row in batch})
        assert shards[-1] <= set(corpus._open) and len(corpus._open) <= corpus.window
    assert set.union(*shards) == set(range(len(corpus.paths)))


@pytest.mark.parametrize("world_size", [1, 2])
def test_a_resumed_epoch_continues_with_the_next_batch(corpus: ShardedCorpus, world_size: int) -> None:
    for rank in range(world_size):
        settings: dict[str, Any] = {"max_tokens": 300, "rank": rank, "world_size": world_size}
        sampler = WindowedBatches(corpus, **settings)
        sampler.set_epoch(2)
        expected = list(sampler)
        for done in (0, 1, len(expected) // 2, len(expected) - 1):
            iterator = iter(sampler)
            for _ in range(done):
                next(iterator)
            other = WindowedBatches(corpus, **settings)
            other.set_epoch(2)
            other.resume(**({**sampler.state(), "done": 0} if done == 0 else sampler.state()))
            assert list(other) == expected[done:]
            assert other.done == len(expected) == len(other)


@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 1), (2, 3), (4, 2)])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.95])
def test_an_epoch_resumed_with_other_ranks_has_every_row_once(
    corpus: ShardedCorpus, before: int, after: int, share: float
) -> None:
    first = samplers(corpus, before, max_tokens=200)
    done = int(len(first[0]) * share)
    used: list[list[list[int]]] = []
    for sampler in first:
        sampler.set_epoch(1)
        iterator = iter(sampler)
        used.append([next(iterator) for _ in range(done)])
    second = samplers(corpus, after, max_tokens=200)
    for sampler in second:
        sampler.set_epoch(1)
        sampler.resume(**first[0].state())
    rest = [list(sampler) for sampler in second]
    assert {done + len(batches) for batches in rest} == {len(sampler) for sampler in second}
    rows = [row for share in (*used, *rest) for batch in share for row in batch]
    assert sorted(rows) == list(range(len(corpus)))
    # A second change of the number of ranks.
    third = samplers(corpus, before, max_tokens=200)
    again = []
    for sampler in samplers(corpus, after, max_tokens=200):
        sampler.set_epoch(1)
        sampler.resume(**first[0].state())
        iterator = iter(sampler)
        again.append([next(iterator) for _ in range(min(3, len(rest[0])))])
        state = sampler.state()
    for sampler in third:
        sampler.set_epoch(1)
        sampler.resume(**state)
    rows = [row for share in (*used, *again, *map(list, third)) for batch in share for row in batch]
    assert sorted(rows) == list(range(len(corpus)))


def test_a_limited_epoch_ends_early(corpus: ShardedCorpus) -> None:
    sampler = WindowedBatches(corpus, max_tokens=200)
    expected = list(sampler)
    sampler.limit(5)
    assert list(sampler) == expected[:5] and len(sampler) == 5
