"""Repeated pairs are dropped as a naive set would drop them; near duplicates differ in case, digits and signs only."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from nmt.data.pair import Pair
from nmt.text import duplicates as module
from nmt.text.duplicates import Duplicates, SeenHashes, without_duplicates
from nmt.text.pair_counts import PairCounts


@pytest.mark.parametrize("seed", range(3))
def test_hashes_are_new_once(seed: int) -> None:
    generator = np.random.default_rng(seed)
    seen, naive = SeenHashes(), set[int]()
    for _ in range(60):
        hashes = generator.integers(0, 900, size=int(generator.integers(1, 40)), dtype=np.uint64)
        expected = []
        for value in hashes.tolist():
            expected.append(value not in naive)
            naive.add(value)
        assert seen.add(hashes).tolist() == expected
    sizes = [len(level) for level in seen._levels]
    assert sum(sizes) == len(naive) and len(sizes) < 10


def distinct(pairs: list[Pair], kind: Duplicates | None) -> tuple[list[Pair], PairCounts]:
    counts = PairCounts()
    return list(without_duplicates(iter(pairs), kind, counts)), counts


def test_later_copies_of_a_pair_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GROUP", 7)
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


def test_copies_are_counted_before_other_reasons_and_across_shards(tmp_path: Path) -> None:
    from sharded import in_shards, random_pairs

    pairs = random_pairs(60)
    same = Pair("Haus", "Haus")
    given = [*pairs, *reversed(pairs), same, same, Pair("", "")]
    unique = len(dict.fromkeys(pair[:2] for pair in pairs))
    identical = len({pair[:2] for pair in pairs if pair.source == pair.target})
    prepared = in_shards(tmp_path / "data", given, size=20, duplicates="exact", drop_identical=True)
    assert prepared.pair_counts["train"].dropped == {
        **{"duplicate": 120 - unique + 1, "empty source": 1},
        "identical sides": identical + 1,
    }
    assert len(prepared.corpora["train"]) == unique - identical
