"""Weights between words, which are split into pieces for display where the script has no spaces."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from builders import part_spans

from nmt.alignment.word_weights import (
    aligned_units,
    argmax_links,
    display_slots,
    display_weights,
    linked_pieces,
    lost_words,
    merge_pieces,
    normalise_rows,
    word_weights,
)
from nmt.text.tokenizer import Tokenizer


class Translation(NamedTuple):
    source: str
    text: str
    source_spans: list[tuple[int, int]]
    spans: list[tuple[int, int]]
    alignment: np.ndarray
    source_tokens: list[str] = []
    tokens: list[str] = []


def test_normalise_rows_keeps_zero_rows_and_drops_signs() -> None:
    np.testing.assert_allclose(normalise_rows(np.array([[1.0, -3.0], [0.0, 0.0]])), [[0.25, 0.75], [0, 0]])


def test_word_weights_of_a_worked_example() -> None:
    """Source pieces a|b b, target pieces x x|y: sum over source pieces, mean over target pieces."""
    alignment = np.array([[0.5, 0.25, 0.25], [0.0, 0.5, 0.5], [1.0, 0.0, 0.0]])
    weights = merge_pieces(
        alignment, [range(1), range(1, 2), range(1, 2)], [range(1)] * 2 + [range(1, 2)], shape=(2, 2)
    )
    np.testing.assert_allclose(weights, [[0.25, 0.75], [1.0, 0.0]])
    assert argmax_links(weights) == {(1, 0), (0, 1)}


def test_words_without_pieces_have_no_weight() -> None:
    raw = np.array([[0.6, 0.4, 0.0], [0.3, 0.7, 0.0], [0.0, 0.0, 1.0]])  # with </s>
    translation = Translation("a b c", "x y z", part_spans("a| b"), part_spans("x| y"), raw)
    expected = [[0.6, 0.4, 0], [0.3, 0.7, 0], [0, 0, 0]]
    np.testing.assert_allclose(word_weights(translation), expected)
    weights, *labels, _ = display_weights(translation)
    np.testing.assert_allclose(weights, expected)
    assert labels == [["a", "b", "c"], ["x", "y", "z"]]
    assert [*lost_words(translation)] == [("source", ["c"]), ("target", ["z"])]


@pytest.mark.parametrize("seed", range(5))
def test_slots_of_words_give_the_alignment_of_words(seed: int) -> None:
    """Pieces a|a, b c (one piece of two words), none and </s>; the word d has none. Rows of β α sum to 1 here."""
    random = np.random.default_rng(seed)
    write, read = random.dirichlet(np.ones(5), size=3), random.dirichlet(np.ones(3), size=5)
    columns, rows = [(0, 1), (1, 2), (3, 7), (-1, -1)], [(0, 1), (2, 3), (3, 4), (-1, -1)]
    translation = Translation("aa b c d", "x yy z", columns, rows, read @ write)
    source, target = display_slots(translation, write, read)
    assert source.shape == (4, 3) and target.shape == (3, 3)
    source_words, target_words = (
        [range(1)] * 2 + [range(1, 3), range(0)],
        [range(1), range(1, 2), range(1, 2), range(0)],
    )
    expected = merge_pieces(read @ write, source_words, target_words, shape=(3, 4))  # with </s>
    np.testing.assert_allclose(target @ source.T, expected)


def test_pieces_of_several_words_and_of_none() -> None:
    """Source pieces "a b", c and one of no word; target pieces x and "x y"."""
    alignment = np.array([[0.6, 0.3, 0.1], [0.2, 0.6, 0.2]])
    source, target = [range(2), range(2, 3), range(0)], [range(1), range(2)]
    weights = merge_pieces(alignment, source, target, shape=(2, 3))
    np.testing.assert_allclose(weights, [[0.2, 0.2, 0.45], [0.1, 0.1, 0.6]])
    np.testing.assert_array_equal(
        linked_pieces(np.eye(1, 3, 1).repeat(2, 0) * [[1], [0]], source, target), [[1, 0, 0]] * 2
    )


def test_word_without_weight_has_no_link() -> None:
    assert argmax_links(np.zeros((2, 3))) == frozenset()
    assert argmax_links(np.zeros((0, 2))) == frozenset()


@pytest.mark.parametrize(
    ("text", "pieces", "labels", "units"),
    [
        ("the dog", "the| |d|og", ["the", "dog"], [0, 1, 1, 1]),
        ("我喜欢猫", "我|喜欢|猫", ["我", "喜欢", "猫"], [0, 1, 2]),
        ("猫 cats", "|猫| cat|s", ["猫", "cats"], [0, 0, 1, 1]),
        ("犬猫", "|||犬|猫", ["犬", "猫"], [0, 0, 0, 0, 1]),
        ("กันดี", "ก|ั|น|ด|ี", ["กั", "น", "ดี"], [0, 0, 1, 2, 2]),
        ("한국어 is", "한|국어| is", ["한국어", "is"], [0, 0, 1]),
        ("", "", [], []),
    ],
)
def test_words_are_split_where_the_script_has_no_spaces(
    text: str, pieces: str, labels: list[str], units: list[int]
) -> None:
    spans = part_spans(pieces)
    translation = Translation("x", text, [(0, 1)], spans, np.eye(len(spans), 1))
    assert display_weights(translation).target == labels
    assert sorted({*units}) == [*range(len(labels))]
    for number, row in enumerate(aligned_units(translation).weights):
        assert row == (units[0] == number) / units.count(number)


def test_weights_of_an_unspaced_word_are_those_of_its_pieces() -> None:
    # Source 我 喜欢 猫 </s>, target x </s>: shares of the source without </s>.
    raw = np.array([[0.1, 0.2, 0.3, 0.4]])
    translation = Translation("我喜欢猫", "x", part_spans("我|喜欢|猫"), [(0, 1)], raw)
    display = display_weights(translation)
    assert display.source == ["我", "喜欢", "猫"]
    np.testing.assert_allclose(display.weights, [[1 / 6, 2 / 6, 3 / 6]])
    words = display_weights(translation, split=False)
    assert words.source == ["我喜欢猫"]
    np.testing.assert_allclose(words.weights, [[1]])


@pytest.mark.parametrize("split", [True, False])
def test_the_row_of_equal_weights_is_what_a_model_without_preference_gives(split: bool) -> None:
    source, target = part_spans("snow|-|wh|ite| 我|喜欢| x"), part_spans("a| b")
    raw = np.full((len(target) + 1, len(source) + 1), 0.5)
    display = display_weights(Translation("snow-white 我喜欢 x", "a b", source, target, raw), split=split)
    expected = [4 / 7, 1 / 7, 1 / 7, 1 / 7] if split else [4 / 7, 2 / 7, 1 / 7]
    for row in (*display.weights, display.equal):
        np.testing.assert_allclose(row, expected)


def test_units_of_a_real_tokenizer_spell_the_sentence() -> None:
    tokenizer = Tokenizer.train(["我喜欢猫 。", "猫喜欢我 。", "我们 喜欢 它"], vocab_size=275)
    text = "我喜欢狗和猫 dogs 。"
    spans = tokenizer.spans(text)
    labels = display_weights(Translation(text, "", spans, [], np.zeros((0, len(spans))))).source
    assert "".join(labels) == text.replace(" ", "") and len(labels) > 4
