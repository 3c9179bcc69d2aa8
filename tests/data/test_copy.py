"""The copy task: distinct random sentences, each its own translation."""

from __future__ import annotations

from collections import Counter

import pytest
from builders import expect_error

from nmt.data.copy import WORDS, generate


def test_each_pair_is_a_copy_linked_word_by_word() -> None:
    size = 4000
    parts = generate(train_pairs=size - 90, valid_pairs=20, test_pairs=70, max_words=8)
    assert [(part, len(pairs)) for part, pairs in parts.items()] == [("train", size - 90), ("valid", 20), ("test", 70)]
    pairs = [pair for part in parts.values() for pair in part]
    for source, target, links, _ in pairs:
        assert source == target and links == tuple((i, i) for i in range(len(source.split())))
    assert len({pair.source for pair in pairs}) == size  # so no test sentence occurs in training
    lengths = Counter(len(pair.source.split()) for pair in pairs)
    assert set(lengths) == {1, 2, 3, 4, 5, 6, 7, 8}
    assert all(
        abs(lengths[long] - lengths[8]) < 0.2 * lengths[8] for long in (4, 5, 6, 7)
    )  # few short ones are distinct
    words = Counter(word for pair in pairs for word in pair.source.split())
    expected = words.total() / 20
    assert {*words} == {*WORDS} and all(abs(count - expected) < 6 * expected**0.5 for count in words.values())


@pytest.mark.parametrize(("max_words", "limit"), [(1, 10), (2, 210)])
def test_at_most_half_of_all_sentences_can_be_drawn(max_words: int, limit: int) -> None:
    pairs = generate(train_pairs=limit, valid_pairs=0, test_pairs=0, max_words=max_words)["train"]
    assert len(set(pairs)) == limit
    expect_error("data.max_words", generate, train_pairs=limit, valid_pairs=1, test_pairs=0, max_words=max_words)
