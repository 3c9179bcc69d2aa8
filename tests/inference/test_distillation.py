"""Distillation chooses the target of each pair as a naive filter would, and its counts add up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics.chrf import CHRF

from nmt.errors import UserError
from nmt.inference.distillation import TEACHER, Distillation
from nmt.inference.translation import Translation, n_best_lists, output_lines

TEXTS = st.lists(st.sampled_from(["ein Hund", "Hund", "EIN HUND", "1.5\tx", ""]), max_size=2).map(" ".join)
SCORES = st.sampled_from(["-0.500000", "-2.000000", "-inf", "nan", "0.000000"])
LIMITS = st.none() | st.sampled_from([0.0, 30.0, 100.0])


@given(
    st.lists(st.tuples(TEXTS, TEXTS, SCORES), max_size=6),
    st.none() | st.sampled_from([-2.0, -1.0]),
    LIMITS,
    st.sampled_from(["reference", "drop"]),
    st.booleans(),
)
def test_targets_equal_those_of_a_naive_filter(
    rows: list[tuple[str, str, str]], min_score: float | None, min_chrf: float | None, rejected: str, lowercase: bool
) -> None:
    distillation = Distillation(
        min_score=min_score,
        min_chrf=min_chrf,
        rejected=rejected,  # type: ignore[arg-type]
        lowercase=lowercase,
    )
    accepted = 0
    for reference, translation, score in rows:
        good = bool(translation.strip())
        good = good and (min_score is None or float(score) >= min_score)
        sides = [text.lower() if lowercase else text for text in (translation, reference)]
        good = good and (min_chrf is None or CHRF().sentence_score(sides[0], [sides[1]]).score >= min_chrf)
        expected = translation if good else {"reference": reference, "drop": None}[rejected]
        assert distillation.target(reference, [f"{score}\t{translation}"]) == expected
        accepted += good
    assert distillation.counts[TEACHER] == accepted and distillation.total == len(rows)
    numbers = [int(line.split()[0]) for line in distillation.lines()]
    assert sum(numbers) == len(rows) and numbers[0] == accepted


def test_translations_without_scores() -> None:
    assert Distillation().target("b", ["a\tc"]) == "a\tc"
    with pytest.raises(UserError, match=r"^min_score=-1: translation 1 has no score before it; write them with"):
        Distillation(min_score=-1.0).target("b", ["a"])


@given(TEXTS, st.lists(TEXTS, min_size=1, max_size=5), st.booleans())
def test_the_translation_nearest_to_the_reference_is_chosen(reference: str, texts: list[str], lowercase: bool) -> None:
    def chrf(text: str) -> float:
        sides = [side.lower() if lowercase else side for side in (text, reference)]
        return float(CHRF().sentence_score(sides[0], [sides[1]]).score)

    best = texts[0]
    for text in texts[1:]:
        if chrf(text) > chrf(best):
            best = text
    expected = best if best.strip() else None
    lines = [f"{-number}.500000\t{text}" for number, text in enumerate(texts)]
    assert Distillation(rejected="drop", lowercase=lowercase).target(reference, lines) == expected


@given(st.lists(st.lists(st.text("ab|& #124;", max_size=9), min_size=1, max_size=3), max_size=4))
def test_n_best_lists_are_read_as_they_are_written(lists: list[list[str]]) -> None:
    best = [Translation(texts[0], n_best=[Translation(text, score=-1.5) for text in texts]) for texts in lists]
    lines = output_lines(best, 7, n_best=3, scores=True)
    assert [*n_best_lists(lines)] == [[f"-1.500000\t{text}" for text in texts] for texts in lists]
