"""Weights between words, which are split into pieces for display where the script has no spaces."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from nmt.alignment.word_weights import (
    argmax_links,
    display_slots,
    display_weights,
    linked_pieces,
    merge_pieces,
    normalise_rows,
    piece_labels,
    split_unspaced,
    word_weights,
)
from nmt.data.words import PieceWords
from nmt.text.tokenizer import Tokenizer


class Translation(NamedTuple):
    alignment: np.ndarray
    source_words: list[int]
    target_words: list[int]
    source_tokens: list[str]
    tokens: list[str]


def test_normalise_rows_keeps_zero_rows_and_drops_signs() -> None:
    np.testing.assert_allclose(normalise_rows(np.array([[1.0, -3.0], [0.0, 0.0]])), [[0.25, 0.75], [0, 0]])


def test_word_weights_of_a_worked_example() -> None:
    """Source pieces a|b b, target pieces x x|y: sum over source pieces, mean over target pieces."""
    alignment = np.array([[0.5, 0.25, 0.25], [0.0, 0.5, 0.5], [1.0, 0.0, 0.0]])
    weights = merge_pieces(alignment, [0, 1, 1], [0, 0, 1])
    np.testing.assert_allclose(weights, [[0.25, 0.75], [1.0, 0.0]])
    assert argmax_links(weights) == {(1, 0), (0, 1)}


def test_display_weights_pad_lost_words_and_refuse_other_text() -> None:
    # Source a b </s>, target x y </s>, all words of one piece.
    raw = np.array([[0.6, 0.4, 0.0], [0.3, 0.7, 0.0], [0.0, 0.0, 1.0]])
    translation = Translation(raw, [0, 1], [0, 1], ["▁a", "▁b", "</s>"], ["▁x", "▁y", "</s>"])
    np.testing.assert_allclose(word_weights(translation), [[0.6, 0.4], [0.3, 0.7]])
    padded = [[0.6, 0.4, 0], [0.3, 0.7, 0], [0, 0, 0]]
    for split in (False, True):
        weights, *labels = display_weights(translation, "a b c", "x y z", split=split)
        np.testing.assert_allclose(weights, padded)
        assert labels == [["a", "b", "c"], ["x", "y", "z"]]
    with pytest.raises(ValueError, match="source: 1 word, the alignment has 2; give the text that was aligned"):
        display_weights(translation, "ab", "x y")
    with pytest.raises(ValueError, match="target: 1 word, the alignment has 2"):
        display_weights(translation, "a b", "xy")


@pytest.mark.parametrize("seed", range(5))
def test_slots_of_words_give_the_alignment_of_words(seed: int) -> None:
    """Pieces a|a, b c (one piece of two words), none and </s>; the word d has none. Rows of β α sum to 1 here."""
    random = np.random.default_rng(seed)
    write, read = random.dirichlet(np.ones(5), size=3), random.dirichlet(np.ones(3), size=5)
    source_words, target_words = PieceWords([0, 0, 1, -1], [0, 0, 2, -1]), PieceWords([0, 1, 1, -1])
    tokens = ["▁a", "a", "▁b▁c", "", "</s>"]
    translation = Translation(read @ write, source_words, target_words, tokens, ["▁x", "▁y", "y", "", "</s>"])
    source, target = display_slots(translation, "aa bc c d", "x yy z", write, read)
    expected = merge_pieces(read @ write, source_words, target_words)
    assert expected.shape == (2, 3) and source.shape == (4, 3) and target.shape == (3, 3)
    np.testing.assert_allclose(target @ source.T, np.pad(expected, [(0, 1), (0, 1)]))


def test_pieces_of_several_words_and_of_none() -> None:
    """Source pieces "a b", c and one of no word; target pieces x and "x y"."""
    alignment = np.array([[0.6, 0.3, 0.1], [0.2, 0.6, 0.2]])
    weights = merge_pieces(alignment, PieceWords([0, 2, -1], [1, 2, -1]), PieceWords([0, 0], [0, 1]))
    np.testing.assert_allclose(weights, [[0.2, 0.2, 0.45], [0.1, 0.1, 0.6]])
    linked = np.array([[0, 1, 0], [0, 0, 0]])
    pieces = linked_pieces(linked, PieceWords([0, 2, -1], [1, 2, -1]), PieceWords([0, 0], [0, 1]))
    np.testing.assert_array_equal(pieces, [[1, 0, 0], [1, 0, 0]])


def test_word_without_weight_has_no_link() -> None:
    assert argmax_links(np.zeros((2, 3))) == frozenset()
    assert argmax_links(merge_pieces(np.zeros((0, 2)), [0, 1], [])) == frozenset()


@pytest.mark.parametrize(
    ("words", "pieces", "word_of_piece", "labels", "indices"),
    [
        (["the", "dog"], ["▁the", "▁d", "og", "</s>"], [0, 1, 1], ["the", "dog"], [0, 1, 1]),
        (["我喜欢猫"], ["▁我", "喜欢", "猫", "</s>"], [0, 0, 0], ["我", "喜欢", "猫"], [0, 1, 2]),
        (["猫", "cats"], ["▁", "猫", "▁cat", "s"], [0, 0, 1, 1], ["猫", "cats"], [0, 0, 1, 1]),
        (["แมวดำ"], ["▁แมว", "ดำ"], [0, 0], ["แมว", "ดำ"], [0, 1]),
        (["犬猫"], ["▁", "<0xE7>", "<0x8A>", "<0xAC>", "猫"], [0] * 5, ["犬", "猫"], [0, 0, 0, 0, 1]),
        (["กันดี"], ["▁ก", "ั", "น", "ด", "ี"], [0] * 5, ["กั", "น", "ดี"], [0, 0, 1, 2, 2]),
        (["กัน"], ["ก", "<0xE0>", "<0xB8>", "<0xB1>", "น"], [0] * 5, ["กั", "น"], [0, 0, 0, 0, 1]),
        (["a", "lost", "猫犬"], ["▁a", "▁猫", "犬"], [0, 2, 2], ["a", "lost", "猫", "犬"], [0, 2, 3]),
        (["한국어", "is"], ["▁한", "국어", "▁is"], [0, 0, 1], ["한국어", "is"], [0, 0, 1]),
        ([], ["</s>"], [], [], []),
    ],
    ids="spaced chinese space-sign thai bytes marks bytes-of-marks lost-word korean empty".split(),
)
def test_words_are_split_where_the_script_has_no_spaces(
    words: list[str], pieces: list[str], word_of_piece: list[int], labels: list[str], indices: list[int]
) -> None:
    assert split_unspaced(words, pieces, word_of_piece) == (labels, indices)


def test_weights_of_an_unspaced_word_are_those_of_its_pieces() -> None:
    # Source 我 喜欢 猫 </s>, target x </s>: shares of the source without </s>.
    raw = np.array([[0.1, 0.2, 0.3, 0.4]])
    translation = Translation(raw, [0, 0, 0], [0], ["▁我", "喜欢", "猫", "</s>"], ["▁x"])
    display = display_weights(translation, "我喜欢猫", "x")
    assert display.source == ["我", "喜欢", "猫"]
    np.testing.assert_allclose(display.weights, [[1 / 6, 2 / 6, 3 / 6]])
    words = display_weights(translation, "我喜欢猫", "x", split=False)
    assert words.source == ["我喜欢猫"]
    np.testing.assert_allclose(words.weights, [[1]])


def test_pieces_of_a_real_tokenizer_spell_the_sentence() -> None:
    tokenizer = Tokenizer.train(["我喜欢猫 。", "猫喜欢我 。", "我们 喜欢 它"], vocab_size=275)
    text = "我喜欢狗和猫 dogs 。"
    ids = tokenizer.encode(text)
    labels, indices = split_unspaced(text.split(), tokenizer.pieces(ids), tokenizer.words(text))
    assert "".join(labels) == text.replace(" ", "") and len(labels) > 4
    assert sorted(set(indices)) == list(range(len(labels))) and indices == sorted(indices)


@pytest.mark.parametrize(
    ("pieces", "labels"),
    [
        (["▁a", "b", "</s>"], ["▁a", "b", "</s>"]),
        (["▁", "<0xE7>", "<0x8A>", "<0xAC>", "猫"], ["▁", "<0xE7> 犬 1/3", "<0x8A> 犬 2/3", "<0xAC> 犬 3/3", "猫"]),
        (["<0x41>", "<0xC3>", "<0xA4>", "<0xC3>", "x"], ["<0x41> A", "<0xC3> ä 1/2", "<0xA4> ä 2/2", "<0xC3>", "x"]),
        (["<0x0A>", "<0xC2>", "<0xA0>", "<0x80>"], ["<0x0A>", "<0xC2>", "<0xA0>", "<0x80>"]),
        ([], []),
    ],
)
def test_bytes_are_labelled_with_their_character(pieces: list[str], labels: list[str]) -> None:
    assert piece_labels(pieces) == labels


def test_words_that_share_a_piece_are_not_split() -> None:
    labels, indices = split_unspaced(["我", "猫", "犬x"], ["▁我▁猫", "▁犬", "x"], PieceWords([0, 2, 2], [1, 2, 2]))
    assert labels == ["我", "猫", "犬", "x"]
    assert (indices, indices.last) == ([0, 2, 3], [1, 2, 3])
