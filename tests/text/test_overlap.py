"""Validation and test pairs that are also in the training part are counted exactly, with and without shards."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sharded import SETTINGS

from nmt.data.filters import Duplicates, Filters
from nmt.data.pair import Pair
from nmt.text.duplicates import Overlap
from nmt.text.pair_counts import PairCounts
from nmt.text.prepare import open_prepared, prepare
from nmt.text.shards import Sharding

PAIRS = st.lists(st.builds(Pair, st.sampled_from(["a", "b ", "c", "", " "]), st.sampled_from(["x", "y", " y", ""])))


@pytest.mark.thorough
@given(PAIRS, PAIRS, PAIRS)
def test_counts_are_those_of_a_plain_search(train: list[Pair], valid: list[Pair], test: list[Pair]) -> None:
    pair_counts = {"valid": PairCounts(), "test": PairCounts()}
    overlap = Overlap({"valid": valid, "test": test})
    assert list(overlap.watch(train)) == train
    overlap.count(pair_counts)
    known = [(pair.source.strip(), pair.target.strip()) for pair in train if pair.source.strip()]
    for part, pairs in (("valid", valid), ("test", test)):
        sides = [(pair.source.strip(), pair.target.strip()) for pair in pairs]
        assert pair_counts[part].in_train == sum(pair in known for pair in sides)
        assert pair_counts[part].sources_in_train == sum(source in [x for x, _ in known] for source, _ in sides)


@pytest.mark.parametrize("shard_pairs", [1000, 7])
@pytest.mark.parametrize("duplicates", [None, "exact"])
def test_preparing_stores_and_prints_the_counts(
    tmp_path: Path, shard_pairs: int, duplicates: Duplicates | None
) -> None:
    train = [Pair(f"a small dog {row}", f"ein Hund {row}") for row in range(20)] * 2
    valid = [train[3], train[3], train[19], Pair("a small dog 4", "etwas anderes"), Pair("new", "neu")]
    parts = {"train": train, "valid": iter(valid)}
    filters = Filters(duplicates=duplicates)
    prepared = prepare(parts, filters, SETTINGS, tmp_path / "data", sharding=Sharding(shard_pairs))
    for counts in (prepared.pair_counts["valid"], open_prepared(tmp_path / "data").pair_counts["valid"]):
        assert (counts.in_train, counts.sources_in_train) == (3, 4)
        assert (
            counts.lines()[1]
            == "4 of 5 sources also in train, 3 with the same target; scores on it do not hold for new text"
        )
    assert prepared.pair_counts["train"].overlap_lines() == []
