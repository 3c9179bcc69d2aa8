"""Repeated pairs are dropped as a naive set would drop them."""

from __future__ import annotations

import random
from pathlib import Path

from small_text import prepared_text, random_pairs

from nmt.data.links import Pair
from nmt.text.corpus import PairCounts
from nmt.text.prepare import without_duplicates


def test_later_copies_of_a_pair_are_dropped() -> None:
    generator, counts = random.Random(2), PairCounts()
    pairs = [Pair(generator.choice("abc"), generator.choice(["x y", "x", "y", ""])) for _ in range(100)]
    pairs += [Pair("ab", "c"), Pair("a", "bc"), Pair("\ud800", "x"), Pair("?", "x")]
    kept = [*without_duplicates(pairs, counts)]
    assert [pair for pair in kept if pair.target] == list(dict.fromkeys(pair for pair in pairs if pair.target))
    assert [pair for pair in kept if not pair.target] == [pair for pair in pairs if not pair.target]
    assert counts.dropped == {"duplicate": len(pairs) - len(kept)}


def test_copies_are_counted_before_other_reasons(tmp_path: Path) -> None:
    pairs = random_pairs(60)
    same = Pair("Haus", "Haus")
    given = [*pairs, *reversed(pairs), same, same, Pair("", "")]
    unique = len(dict.fromkeys(pair[:2] for pair in pairs))
    prepared = prepared_text(tmp_path / "data", given, duplicates=False)
    assert prepared.pair_counts["train"].dropped == {"duplicate": 120 - unique + 1, "empty source": 1}
    assert len(prepared.corpora["train"]) == unique + 1
