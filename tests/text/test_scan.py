"""A scan counts all pairs, and samples each of them with equal probability."""

from __future__ import annotations

import pytest

from nmt.data.pair import Pair
from nmt.text import prepare as module
from nmt.text.prepare import scan_pairs


def test_a_small_corpus_is_its_own_sample() -> None:
    pairs = [Pair(str(number), "x") for number in range(50)]
    result = scan_pairs(iter(pairs))
    assert (result.count, result.sample, result.is_complete) == (50, pairs, True)
    assert scan_pairs(pairs).fingerprint == result.fingerprint
    for changed in (pairs[:-1], pairs[::-1], [*pairs[:-1], pairs[-1]._replace(links=())]):
        assert scan_pairs(changed).fingerprint != result.fingerprint


def test_a_large_corpus_is_sampled_evenly_and_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SAMPLE_PAIRS", 10)
    counts = [0] * 40
    for seed in range(400):
        monkeypatch.setattr(module, "SEED", seed)
        result = scan_pairs(Pair(str(number), "x") for number in range(40))
        numbers = [int(pair.source) for pair in result.sample]
        assert (result.count, len(numbers), result.is_complete) == (40, 10, False)
        assert numbers == sorted(set(numbers))
        for number in numbers:
            counts[number] += 1
    # 100 expected, standard deviation 8.7
    assert min(counts) > 60 and max(counts) < 140
