"""Preparing: the scan of all pairs, sizes of a vocabulary, counts of changed and known pairs, and repeated pairs."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest
from builders import expect_error
from hypothesis import given
from hypothesis import strategies as st
from small_text import SETTINGS, prepared_text, random_pairs

from nmt.data.filters import Filters
from nmt.data.links import Pair
from nmt.text import prepare as module
from nmt.text.corpus import PairCounts
from nmt.text.prepare import (
    SETTINGS_FILE,
    Overlap,
    open_prepared,
    prepare,
    sample_pairs,
    settings_checksum,
    without_duplicates,
)


def test_a_large_corpus_is_sampled_evenly_and_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [Pair(str(number), "x") for number in range(40)]
    assert sample_pairs(iter(pairs)) == (40, pairs)
    monkeypatch.setattr(module, "SAMPLE_PAIRS", 10)
    counts = [0] * 40
    for seed in range(400):
        monkeypatch.setattr(module, "SEED", seed)
        count, sample = sample_pairs(iter(pairs))
        numbers = [int(pair.source) for pair in sample]
        assert (count, len(numbers)) == (40, 10) and numbers == sorted(set(numbers))
        for number in numbers:
            counts[number] += 1
    # 100 expected, standard deviation 8.7
    assert min(counts) > 60 and max(counts) < 140


@pytest.mark.parametrize(("size", "wrong"), [(400, 400), ((270, 400), 400), ((420, 270), 420)])
def test_a_size_that_does_not_fit_is_named(size: int | tuple[int, int], wrong: int) -> None:
    expect_error(
        rf"^tokenizer\.vocab_size={wrong}: .* \d+ pieces", replace(SETTINGS, vocab_size=size).train, ["a dog"], ["x y"]
    )


PAIRS = st.lists(st.builds(Pair, st.sampled_from(["a", "b ", "c", "", " "]), st.sampled_from(["x", "y", " y", ""])))


@pytest.mark.thorough
@given(PAIRS, PAIRS, PAIRS)
def test_counts_are_those_of_a_plain_search(train: list[Pair], valid: list[Pair], test: list[Pair]) -> None:
    pair_counts = {"valid": PairCounts(), "test": PairCounts()}
    overlap = Overlap({"valid": valid, "test": test})
    assert list(overlap.watch(train)) == train
    overlap.count(pair_counts)
    known = [(pair.source.strip(), pair.target.strip()) for pair in train if pair.source.strip()]
    for part, pairs in (("valid", valid), ("test", test)):
        sides = [(pair.source.strip(), pair.target.strip()) for pair in pairs]
        assert pair_counts[part].in_train == sum(pair in known for pair in sides)
        assert pair_counts[part].sources_in_train == sum(source in [x for x, _ in known] for source, _ in sides)


@pytest.mark.parametrize("sample", [1000, 7])
@pytest.mark.parametrize("duplicates", [False, True])
def test_preparing_stores_and_prints_the_counts(
    tmp_path: Path, sample: int, duplicates: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SAMPLE_PAIRS", sample)
    train = [Pair(f"a small dog {row}", f"ein Hund {row}") for row in range(20)] * 2
    valid = [train[3], train[3], train[19], Pair("a small dog 4", "etwas anderes"), Pair("new", "neu")]
    parts = {"train": train, "valid": iter(valid)}
    filters = Filters(duplicates=duplicates)
    prepared = prepare(parts, filters, SETTINGS, tmp_path / "data")
    for counts in (prepared.pair_counts["valid"], open_prepared(tmp_path / "data").pair_counts["valid"]):
        assert (counts.in_train, counts.sources_in_train) == (3, 4)
        message = (
            "4 of 5 sources also in the training text, 3 with the same target; scores on it do not hold for new text"
        )
        assert counts.lines()[1] == message
    assert not any("also in" in line for line in prepared.pair_counts["train"].lines())


@pytest.mark.parametrize("counts", [None, {}, {"valid": {}}])
def test_text_without_its_counts_is_refused_before_it_is_trained_on(tmp_path: Path, counts: object) -> None:
    prepare(
        {"train": [Pair("a small dog", "ein Hund")] * 20}, Filters(), replace(SETTINGS, vocab_size=(280, 280)), tmp_path
    )
    stored = json.loads((tmp_path / SETTINGS_FILE).read_text())
    del stored["checksum"], stored["pair_counts"]
    stored |= {} if counts is None else {"pair_counts": counts}
    (tmp_path / SETTINGS_FILE).write_text(json.dumps(stored | {"checksum": settings_checksum(stored)}))
    expect_error("data.folder", open_prepared, tmp_path)


# Duplicates.


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
