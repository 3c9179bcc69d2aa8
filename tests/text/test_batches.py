"""Batches hold every row once, stay within the budget, pad little, and depend only on (seed, epoch)."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from batch_laws import check_continued, check_epoch, check_epochs

from nmt.data.pair import Pair
from nmt.text.batches import CorpusPlan, EpochBatches, SegmentPlan, collate
from nmt.text.corpus import Corpus, write_corpus
from nmt.text.specials import BOS, EOS, PAD
from nmt.text.tokenizer import Tokenizer


def lengths(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return piece counts like those of Multi30k: log-normal around 14, correlation 0.85 between the sides."""
    normal = np.random.default_rng(seed).normal(size=(2, count))
    sides = np.exp(2.6 + 0.3 * np.stack([normal[0], 0.85 * normal[0] + 0.53 * normal[1]]))
    source, target = np.clip(np.round(sides), 1, 90).astype(np.int32)
    return source, target


def padding_share(batches: list[list[int]], source: np.ndarray, target: np.ndarray) -> float:
    padded = sum(len(rows) * (source[rows].max() + target[rows].max() + 2) for rows in batches)
    return 1 - sum((source[rows] + target[rows] + 2).sum() for rows in batches) / float(padded)


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("max_tokens", [1024, 4096])
def test_batches_are_well_filled_and_pad_little(max_tokens: int, shuffle: bool) -> None:
    source, target = lengths(29_000)
    batches = list(EpochBatches(CorpusPlan(source, target, max_tokens=max_tokens, shuffle=shuffle)))
    assert padding_share(batches, source, target) <= 0.05
    fewest = (np.maximum(source, target) + 1).sum() / max_tokens
    assert fewest / len(batches) >= 0.65


@pytest.mark.parametrize("seed", range(12))
def test_every_row_occurs_once_within_the_budget_and_the_promised_length(seed: int) -> None:
    random = np.random.default_rng(seed)
    source, target = lengths(int(random.integers(1, 700)), seed)
    source[:: int(random.integers(3, 50))] = random.integers(1, 900)
    options: dict[str, Any] = {
        "max_tokens": int(random.integers(1, 800)),
        "max_sentences": [None, 1, 7, 64][seed % 4],
        "shuffle": bool(seed % 3),
        "seed": seed,
    }
    plan = CorpusPlan(source, target, **options)
    for world_size, epoch in itertools.product((1, 2, 3), range(4)):
        check_epoch(plan, world_size, epoch, np.maximum(source, target) + 1, **options)


@pytest.mark.parametrize("world_size", [1, 2, 3, 7])
def test_continued_epoch_has_the_batches_of_the_uninterrupted_one(world_size: int) -> None:
    plan = CorpusPlan(*lengths(500), max_tokens=300)
    for rank in range(world_size):
        check_continued(plan, rank=rank, world_size=world_size)


@pytest.mark.parametrize("world_size", [1, 3])
@pytest.mark.parametrize("share", [0.3, 1, 2.7])
def test_segments_cut_the_sequence_of_all_epochs(share: float, world_size: int) -> None:
    plan = CorpusPlan(*lengths(500), max_tokens=300)
    segments = SegmentPlan(plan, round(share * plan.count / world_size) * world_size)
    for rank in range(world_size):
        ranks = {"rank": rank, "world_size": world_size}
        check_continued(segments, **ranks)
        epochs = [batch for epoch in range(6) for batch in EpochBatches(plan, epoch, **ranks)]
        cut = [batch for epoch in range(2) for batch in EpochBatches(segments, epoch, **ranks)]
        assert len(cut) == 2 * len(EpochBatches(segments, **ranks))
        assert cut == epochs[: len(cut)]


def test_epochs_differ_and_are_repeatable() -> None:
    source, target = lengths(5000)
    check_epochs(lambda seed: CorpusPlan(source, target, max_tokens=2048, seed=seed))
    # Long batches are spread over the epoch.
    costs = [source[rows].mean() for rows in EpochBatches(CorpusPlan(source, target, max_tokens=2048))]
    assert abs(np.corrcoef(costs, np.arange(len(costs)))[0, 1]) < 0.5


def test_unshuffled_batches_are_the_same_in_every_epoch() -> None:
    plan = CorpusPlan(*lengths(500), max_tokens=512, shuffle=False)
    assert list(EpochBatches(plan)) == list(EpochBatches(plan, 5))


def test_a_sentence_above_the_budget_is_a_batch_alone() -> None:
    source, target = np.array([5, 5, 100, 5]), np.array([5, 5, 3, 200])
    batches = list(EpochBatches(CorpusPlan(source, target, max_tokens=50)))
    assert sorted(map(sorted, batches)) == [[0, 1], [2], [3]]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    path: Path = tmp_path_factory.mktemp("corpus") / "c.arrow"
    pairs = [Pair("a man runs", "ein Mann"), Pair("a", "ein Hund läuft"), Pair("dogs run", "Hunde")]
    tokenizer = Tokenizer.train([text for pair in pairs for text in pair[:2]] * 9, vocab_size=290)
    write_corpus(path, pairs, tokenizer, tokenizer)
    return Corpus.open(path)


@pytest.mark.parametrize("rows", [[0], [2, 0, 1], [1, 1]])
def test_collate_pads_and_shifts(corpus: Corpus, rows: list[int]) -> None:
    batch = collate(corpus, rows)
    assert batch.index.tolist() == rows
    for b, row in enumerate(rows):
        x, y = (ids.tolist() for ids in corpus.ids(row))
        assert batch.source[b][batch.source_mask[b]].tolist() == [*x, EOS]
        assert batch.target_in[b][batch.target_mask[b]].tolist() == [BOS, *y]
        assert batch.target_out[b][batch.target_mask[b]].tolist() == [*y, EOS]
    assert batch.source.shape == batch.source_mask.shape
    assert batch.target_in.shape == batch.target_out.shape == batch.target_mask.shape
    for ids, mask in (
        (batch.source, batch.source_mask),
        (batch.target_in, batch.target_mask),
        (batch.target_out, batch.target_mask),
    ):
        assert ids.dtype == torch.int64
        assert (ids[~mask] == PAD).all()
        assert mask[:, 0].all()
        assert mask.any(dim=0).all()  # no column holds only padding
