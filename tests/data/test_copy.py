"""The copy task: distinct random sentences, each its own translation."""

from __future__ import annotations

from collections import Counter

from builders import expect_error

from nmt.data.copy import generate
from nmt.data.sources import DataSettings, load_pairs
from nmt.settings.build import build

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


def test_seed_and_defaults_determine_the_pairs() -> None:
    parts = generate(**SIZES, seed=1)
    assert parts == generate(**SIZES, seed=1, min_words=1, max_words=10, vocabulary=20)
    data = {"_target_": "nmt.data.copy.generate", **SIZES, "seed": 1, "lowercase": False}
    assert load_pairs(build(DataSettings, data)) == parts
    other_parts = generate(**SIZES, seed=2)
    assert all(parts[part] != other_parts[part] for part in parts)


def test_lengths_and_words_are_drawn_evenly_within_their_bounds() -> None:
    size = 4000
    parts = generate(train_pairs=size, valid_pairs=0, test_pairs=0, seed=1, min_words=5, max_words=8, vocabulary=300)
    sentences = [pair.source.split() for pair in parts["train"]]
    lengths = Counter(map(len, sentences))
    assert set(lengths) == {5, 6, 7, 8}
    assert all(abs(count - size / 4) < 5 * (size * 3 / 16) ** 0.5 for count in lengths.values())
    words = Counter(word for sentence in sentences for word in sentence)
    assert len(words) == 300
    expected = words.total() / 300
    assert all(abs(count - expected) < 6 * expected**0.5 for count in words.values())


def test_at_most_half_of_all_sentences_can_be_drawn() -> None:
    # 20 words make 20 sentences of one word and 20 + 400 of up to two.
    # 3 words make 9 sentences of two words and 27 of three.
    for min_words, max_words, vocabulary, limit in ((1, 1, 20, 10), (1, 2, 20, 210), (2, 3, 3, 18)):
        bounds = {"min_words": min_words, "max_words": max_words, "vocabulary": vocabulary}
        pairs = generate(train_pairs=limit, valid_pairs=0, test_pairs=0, seed=1, **bounds)["train"]
        assert len(set(pairs)) == limit
        message = rf"^data\.max_words={max_words}: allows {limit} .*={vocabulary}, {limit + 1} are requested; .*$"
        expect_error(message, generate, train_pairs=limit - 1, valid_pairs=1, test_pairs=1, seed=1, **bounds)


def test_impossible_sizes_are_rejected() -> None:
    expect_error(
        r"^data\.min_words=9: must be at most data\.max_words=8$", generate, **SIZES, seed=1, min_words=9, max_words=8
    )
