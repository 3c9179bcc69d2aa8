"""Laws of the plan of batches, padding, and BPE-dropout, which changes the pieces and never the text."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_text import prepared_text, random_pairs
from tokenizer_kinds import tokenizer_of

from nmt.errors import UserError
from nmt.text import batches as module
from nmt.text.batches import BatchPlan, SampledPieces, collate
from nmt.text.prepare import Prepared
from nmt.text.specials import BOS, EOS, PAD

LENGTHS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), min_size=4, max_size=90)


def random_lengths(rows: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(3)
    source = random.integers(1, 50, rows).astype(np.int32)
    return source, np.maximum(1, source + random.integers(-6, 7, rows)).astype(np.int32)


@pytest.fixture(params=[(module.POOL, module.BLOCK), (20, 5)])
def pool(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plan whole corpora, or small pools of blocks."""
    monkeypatch.setattr(module, "POOL", request.param[0])
    monkeypatch.setattr(module, "BLOCK", request.param[1])


@pytest.mark.usefixtures("pool")
@given(
    lengths=LENGTHS,
    max_tokens=st.integers(1, 200),
    max_sentences=st.none() | st.integers(1, 9),
    world_size=st.integers(1, 4),
    shuffle=st.booleans(),
    number=st.integers(0, 3),
)
def test_a_pass_reads_rows_once_within_the_budget(
    lengths: list[tuple[int, int]], world_size: int, number: int, shuffle: bool, max_tokens: int, **limits: Any
) -> None:
    source, target = np.array(lengths, dtype=np.int32).T
    longer = np.maximum(source, target) + 1
    shares = []
    for rank in range(world_size):
        ranks = {"rank": rank, "world_size": world_size}
        plan = BatchPlan(source, target, max_tokens=max_tokens, shuffle=shuffle, **limits, **ranks)
        shares.append(list(plan.batches(number)))
        assert len(shares[-1]) == plan.count(number)
    batches = [batch for share in shares for batch in share]
    rows = sorted(row for batch in batches for row in batch)
    assert len(rows) == len(set(rows))
    if world_size == 1 or not shuffle:
        assert rows == list(range(len(lengths)))
    else:
        assert len({len(share) for share in shares}) == 1
    for batch in batches:
        assert 1 <= len(batch) <= (limits["max_sentences"] or len(lengths))
        assert len(batch) == 1 or len(batch) * longer[batch].max() <= max_tokens


@pytest.mark.usefixtures("pool")
def test_seed_and_pass_decide_the_batches() -> None:
    def batches(seed: int, number: int) -> list[list[int]]:
        return list(BatchPlan(*random_lengths(4000), max_tokens=400, seed=seed).batches(number))

    assert batches(1, 3) == batches(1, 3) != batches(1, 4)
    assert batches(1, 3) != batches(2, 3)
    first, second = ({frozenset(rows) for rows in batches(1, number)} for number in (0, 1))
    assert len(first & second) < 0.2 * len(first)


@pytest.mark.usefixtures("pool")
def test_a_pass_continues_anywhere() -> None:
    plan = BatchPlan(*random_lengths(300), max_tokens=300, rank=1, world_size=2)
    expected = list(plan.batches(2))
    assert all(list(plan.batches(2, skip)) == expected[skip:] for skip in range(len(expected) + 1))


def test_batches_are_full_and_have_little_padding() -> None:
    source, target = random_lengths(20_000)
    batches = list(BatchPlan(source, target, max_tokens=1000).batches(0))
    padded = sum(len(rows) * (source[rows].max() + target[rows].max() + 2) for rows in batches)
    assert (source + target + 2).sum() / padded > 0.95
    longer = np.maximum(source, target) + 1
    assert np.mean([len(rows) * longer[rows].max() for rows in batches]) > 0.93 * 1000


def test_fewer_pairs_than_processes_are_refused() -> None:
    with pytest.raises(UserError, match="^data: 2 pairs for 3 processes"):
        BatchPlan(*random_lengths(2), max_tokens=9, world_size=3)


def test_padding_and_masks(tmp_path: Path) -> None:
    corpus = prepared_text(tmp_path / "data", random_pairs(20)).corpora["train"]
    rows = [4, 0, 7]
    batch = collate(corpus, rows)
    assert batch.index.tolist() == rows
    for number, row in enumerate(rows):
        x, y = (ids.tolist() for ids in corpus.ids(row))
        sides = [(batch.source, batch.source_mask, [*x, EOS]), (batch.target_out, batch.target_mask, [*y, EOS])]
        for ids, mask, expected in [*sides, (batch.target_in, batch.target_mask, [BOS, *y])]:
            assert ids[number].tolist() == expected + [PAD] * (ids.shape[1] - len(expected))
            assert mask[number].tolist() == [True] * len(expected) + [False] * (ids.shape[1] - len(expected))


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    folder: Path = tmp_path_factory.mktemp("sampled") / "data"
    return prepared_text(folder, random_pairs(200))


@pytest.mark.parametrize("dropout", [0.1, 0.5, 0.99])
def test_text_and_budget_stay(prepared: Prepared, dropout: float) -> None:
    corpus = prepared.corpora["train"]
    pieces = SampledPieces(prepared, dropout, max_tokens=300)
    longest, _ = corpus.longest_source()
    plan = BatchPlan(corpus.source_lengths, corpus.target_lengths, max_tokens=300, growth=pieces.growth)
    changed = Counter[bool]()
    for rows in plan.batches(0):
        batch = collate(pieces, rows)
        assert len(rows) == 1 or max(batch.source.numel(), batch.target_out.numel()) <= 300
        assert batch.source.shape[1] <= longest + 1
        for number, row in enumerate(rows):
            sides = [ids[number].tolist() for ids in (batch.source, batch.target_out)]
            sides = [ids[: ids.index(EOS)] for ids in sides]
            assert tuple(map(prepared.source.decode, sides)) == corpus.texts(row)
            changed[sides[0] != corpus.ids(row)[0].tolist()] += 1
    assert changed[True] > changed[False]


def test_every_reading_draws_other_pieces_of_merges(prepared: Prepared) -> None:
    pieces = SampledPieces(prepared, 0.3, max_tokens=10_000)
    first, second = ([ids.tolist() for pair in pieces.batch(range(50)) for ids in pair] for _ in range(2))
    assert first != second
    for kind in ("spm-default", "words", "characters"):  # whatever the setting tokenizer.kind says
        with pytest.raises(UserError, match=r"^batches\.bpe_dropout=0\.1: "):
            SampledPieces(replace(prepared, target=tokenizer_of(kind)), 0.1, max_tokens=9)
