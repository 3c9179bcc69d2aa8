"""The stored corpus of data=generated, and the links between its words."""

from __future__ import annotations

from nmt.data.generated import SIZES, generated

MARKS = {",", ".", "?"}


def test_stored_corpus() -> None:
    parts = generated(train_pairs=40_000, valid_pairs=500, test_pairs=500)
    assert {part: len(pairs) for part, pairs in parts.items()} == SIZES
    sources = [pair.source for pairs in parts.values() for pair in pairs]
    assert len(set(sources)) == len(sources)
    for side in (0, 1):
        known = {word for pair in parts["train"] for word in pair[side].split()}
        assert all(known.issuperset(pair[side].split()) for part in ("valid", "test") for pair in parts[part])
    for pair in (pair for pairs in parts.values() for pair in pairs):
        source, target = pair.source.split(), pair.target.split()
        assert list(pair.links) == sorted(set(pair.links))
        assert all((source[i] in MARKS) == (target[j] in MARKS) for i, j in pair.links)  # also within bounds
        assert (len(source) - 1, len(target) - 1) in pair.links


def test_smaller_parts_are_the_first_pairs() -> None:
    few = generated(train_pairs=30, valid_pairs=2, test_pairs=3)
    more = generated(train_pairs=31, valid_pairs=500, test_pairs=4)
    assert {part: len(pairs) for part, pairs in few.items()} == {"train": 30, "valid": 2, "test": 3}
    assert all(more[part][: len(pairs)] == pairs for part, pairs in few.items())
