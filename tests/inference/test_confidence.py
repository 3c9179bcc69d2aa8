"""Confidence is compared with the quality of translations."""

from __future__ import annotations

from dataclasses import replace
from math import log, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.data.words import PieceWords
from nmt.inference.confidence import calibrate, describe_calibration, rank_correlation
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


def test_quarters_are_ordered_by_confidence_and_have_the_mean_chrf_of_their_lines() -> None:
    """Line n has the confidence exp(-n) and every second line is right: fewer of the unsure lines."""
    right = [True] * 10 + [number % 2 == 0 for number in range(10)] + [False] * 20
    lines = [Translation("ein Hund" if ok else "xyz", log_prob=-float(n), tokens=["a"]) for n, ok in enumerate(right)]
    calibration = calibrate(lines[::-1], ["ein Hund"] * 40)
    assert calibration is not None
    assert [round(chrf) for _, chrf in calibration.quarters] == [0, 0, 50, 100]
    assert [highest for highest, _ in calibration.quarters] == [lines[n].confidence for n in (30, 20, 10, 0)]
    assert calibration.correlation > 0.7 and "by confidence: 0.0 (up to" in describe_calibration(calibration)
    assert describe_calibration(calibration).endswith(", 100.0 (up to 1.00)")
    assert calibrate(lines[:19], ["ein Hund"] * 19) is None
    assert calibrate([NO_TRANSLATION] * 20, ["ein Hund"] * 20) == (0.0, [(0.0, 0.0)] * 4)
