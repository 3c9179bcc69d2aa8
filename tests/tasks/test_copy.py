"""The copy task: distinct random sentences, each its own translation."""

from __future__ import annotations

import pytest

from nmt.errors import UserError
from nmt.tasks.copy import generate
from nmt.text.prepare import load_pairs

SIZES = {"train": 2000, "valid": 50, "test": 70}


def test_every_pair_is_a_copy_linked_word_by_word() -> None:
    parts = generate(**SIZES, seed=1, max_words=6)
    assert {part: len(pairs) for part, pairs in parts.items()} == SIZES
    pairs = [pair for part in parts.values() for pair in part]
    for source, target, links, _ in pairs:
        assert source == target
        assert links == tuple((i, i) for i in range(len(source.split())))
    assert len({pair.source for pair in pairs}) == len(pairs)  # so nothing of the test set was trained on
    assert {len(pair.source.split()) for pair in pairs} == {1, 2, 3, 4, 5, 6}
    # Five beginnings times four endings; every word has a few hundred chances to be drawn.
    assert len({word for pair in pairs for word in pair.source.split()}) == 20


def test_the_seed_decides() -> None:
    once = generate(**SIZES, seed=1)
    assert once == generate(**SIZES, seed=1)
    other = generate(**SIZES, seed=2)
    assert all(once[part] != other[part] for part in SIZES)


def test_half_of_all_sentences_at_most() -> None:
    # 20 words make 20 sentences of one word and 20 + 400 of up to two.
    for max_words, most in ((1, 10), (2, 210)):
        found = generate(train_pairs=most, valid_pairs=0, test_pairs=0, seed=1, max_words=max_words)["train"]
        assert len(set(found)) == most
        with pytest.raises(UserError, match=rf"^data\.kind=copy: {most + 1} .* at most {max_words} words .*$"):
            generate(train=most - 1, valid=1, test=1, seed=1, max_words=max_words)


@pytest.mark.parametrize("part", SIZES)
def test_negative_sizes_are_refused(part: str) -> None:
    with pytest.raises(UserError, match=rf"^data\.{part}_pairs=-1: must be at least 0$"):
        generate(**{**SIZES, part: -1}, seed=1)


def test_it_is_what_the_configuration_calls_copy() -> None:
    sizes = {f"{part}_pairs": size for part, size in SIZES.items()}
    assert load_pairs({"kind": "copy", **sizes, "seed": 3, "lowercase": False}) == generate(**SIZES, seed=3)
