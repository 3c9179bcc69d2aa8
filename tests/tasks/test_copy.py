"""The copy task: distinct random sentences, each its own translation."""

from __future__ import annotations

import pytest

from nmt.errors import UserError
from nmt.tasks.copy import generate
from nmt.tasks.sources import load_pairs

SIZES = {"train_pairs": 2000, "valid_pairs": 50, "test_pairs": 70}


def test_each_pair_is_a_copy_linked_word_by_word() -> None:
    parts = generate(**SIZES, seed=1, max_words=6)
    assert {f"{part}_pairs": len(pairs) for part, pairs in parts.items()} == SIZES
    pairs = [pair for part in parts.values() for pair in part]
    for source, target, links, _ in pairs:
        assert source == target
        assert links == tuple((i, i) for i in range(len(source.split())))
    assert len({pair.source for pair in pairs}) == len(pairs)  # so no test sentence occurs in training
    assert {len(pair.source.split()) for pair in pairs} == {1, 2, 3, 4, 5, 6}
    # Five onsets times four endings. Each word has a few hundred chances to be drawn.
    assert len({word for pair in pairs for word in pair.source.split()}) == 20


def test_seed_determines_the_pairs() -> None:
    parts = generate(**SIZES, seed=1)
    assert parts == generate(**SIZES, seed=1)
    other_parts = generate(**SIZES, seed=2)
    assert all(parts[part] != other_parts[part] for part in parts)


def test_at_most_half_of_all_sentences_can_be_drawn() -> None:
    # 20 words make 20 sentences of one word and 20 + 400 of up to two.
    for max_words, limit in ((1, 10), (2, 210)):
        pairs = generate(train_pairs=limit, valid_pairs=0, test_pairs=0, seed=1, max_words=max_words)["train"]
        assert len(set(pairs)) == limit
        message = (
            rf"^data\.max_words={max_words}: allows {limit} .*, {limit + 1} are requested; ask for fewer pairs or .*$"
        )
        with pytest.raises(UserError, match=message):
            generate(train_pairs=limit - 1, valid_pairs=1, test_pairs=1, seed=1, max_words=max_words)


@pytest.mark.parametrize("key", SIZES)
def test_negative_sizes_are_rejected(key: str) -> None:
    with pytest.raises(UserError, match=rf"^data\.{key}=-1: must be at least 0$"):
        generate(**{**SIZES, key: -1}, seed=1)


def test_configuration_selects_the_copy_task() -> None:
    data = {"_target_": "nmt.tasks.copy.generate", **SIZES, "seed": 3, "lowercase": False}
    assert load_pairs(data) == generate(**SIZES, seed=3)
