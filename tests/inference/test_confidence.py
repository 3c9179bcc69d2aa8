"""Confidence is compared with the quality of translations."""

from __future__ import annotations

from dataclasses import replace
from math import log, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.data.words import PieceWords
from nmt.inference.confidence import calibrate, rank_correlation
from nmt.inference.translation import NO_TRANSLATION, Translation

NUMBERS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=9)


@given(NUMBERS)
def test_rank_correlation_is_that_of_the_mean_ranks(pairs: list[tuple[int, int]]) -> None:
    columns = list(zip(*pairs, strict=True))
    ranks = [
        [sum(other < value for other in column) + (sum(other == value for other in column) + 1) / 2 for value in column]
        for column in columns
    ]
    means = [sum(column) / len(column) for column in ranks]
    products = [(a - means[0]) * (b - means[1]) for a, b in zip(*ranks, strict=True)]
    squares = [sum((rank - mean) ** 2 for rank in column) for column, mean in zip(ranks, means, strict=True)]
    expected = sum(products) / (squares[0] * squares[1]) ** 0.5 if all(squares) else 0.0
    assert rank_correlation(*columns) == pytest.approx(expected)


def test_the_confidence_of_a_word_is_the_mean_probability_of_its_tokens() -> None:
    probabilities = [0.5, 0.8, 0.2, nan, 0.9]  # the last one is that of </s>
    best = Translation(
        "New York is big",
        tokens=["▁New▁York", "▁is", "▁b", "▁big", "</s>"],
        target_words=PieceWords([0, 2, -1, 3], [1, 2, -1, 3]),
        token_log_probs=[log(probability) for probability in probabilities],
    )
    assert best.word_confidences == pytest.approx([0.5, 0.5, 0.8, nan], nan_ok=True)
    halves = replace(best, text="New is", target_words=[0, 1, 1, 0])
    assert halves.word_confidences == pytest.approx([nan, (0.8 * 0.2) ** 0.5], nan_ok=True)
    assert replace(best, target_words=[]).word_confidences == []


def test_confidence_is_compared_with_the_chrf_of_a_line() -> None:
    """Line n has the confidence exp(-n)."""
    lines = [Translation("ein Hund" if n < 30 else "xyz", log_prob=-float(n), tokens=["a"]) for n in range(40)]
    assert (calibrate(lines, ["ein Hund"] * 40) or 0) > 0.7
    assert (calibrate(lines[::-1], ["xyz"] * 40) or 0) < -0.7
    assert calibrate(lines[:19], ["ein Hund"] * 19) is None
    assert calibrate([NO_TRANSLATION] * 20, ["ein Hund"] * 20) == 0.0
