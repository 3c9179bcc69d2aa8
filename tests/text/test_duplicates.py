"""Repeated pairs are dropped as a naive set would drop them; near duplicates differ in case, digits and signs only."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from small_text import prepared_text, random_pairs

from nmt.data.links import Pair
from nmt.text.corpus import PairCounts
from nmt.text.prepare import Duplicates, without_duplicates


def distinct(pairs: list[Pair], kind: Duplicates | None) -> tuple[list[Pair], PairCounts]:
    counts = PairCounts()
    return list(without_duplicates(iter(pairs), kind, counts)), counts


def test_later_copies_of_a_pair_are_dropped() -> None:
    generator = random.Random(2)
    pairs = [Pair(generator.choice("abc"), generator.choice(["x y", "x", "y", ""])) for _ in range(100)]
    kept, counts = distinct(pairs, "exact")
    assert [pair for pair in kept if pair.target] == list(dict.fromkeys(pair for pair in pairs if pair.target))
    assert [pair for pair in kept if not pair.target] == [pair for pair in pairs if not pair.target]
    assert counts.dropped == {"duplicate": 100 - len(kept)}
    assert distinct(pairs, None) == (pairs, PairCounts())


@pytest.mark.parametrize(
    ("other", "near"),
    [
        (("the dog sees 3 cats.", "der Hund sieht 3 Katzen."), True),
        (("The dog  sees 4 cats!", "Der Hund sieht 4 Katzen"), True),
        (("the ｄｏｇ sees 3 cats", "der Hund sieht 3 Katzen"), True),
        (("the dog sees 3 rats", "der Hund sieht 3 Katzen"), False),
        (("the dog sees 3", "cats der Hund sieht 3 Katzen"), False),  # the same letters, cut elsewhere
        (("हिन्दी the dog sees 3 cats", "der Hund sieht 3 Katzen"), False),
    ],
)
def test_near_duplicates_have_equal_letters(other: tuple[str, str], near: bool) -> None:
    first = Pair("the dog sees 3 cats", "der Hund sieht 3 Katzen")
    kept, counts = distinct([first, Pair(*other)], "near")
    assert len(kept) == 2 - near
    assert counts.dropped == ({"near duplicate": 1} if near else {})


def test_texts_without_letters_and_with_other_marks_differ() -> None:
    pairs = [Pair("1", "x"), Pair("2", "x"), Pair("कि", "x"), Pair("कु", "x"), Pair("\ud800", "x"), Pair("?", "x")]
    assert distinct(pairs, "near")[0] == distinct(pairs, "exact")[0] == pairs


def test_copies_are_counted_before_other_reasons(tmp_path: Path) -> None:
    pairs = random_pairs(60)
    same = Pair("Haus", "Haus")
    given = [*pairs, *reversed(pairs), same, same, Pair("", "")]
    unique = len(dict.fromkeys(pair[:2] for pair in pairs))
    prepared = prepared_text(tmp_path / "data", given, duplicates="exact")
    assert prepared.pair_counts["train"].dropped == {"duplicate": 120 - unique + 1, "empty source": 1}
    assert len(prepared.corpora["train"]) == unique + 1
