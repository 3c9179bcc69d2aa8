"""One generated corpus for all tests of the grammar."""

from __future__ import annotations

import pytest

from nmt.data.pair import Pair
from nmt.grammar import generate


@pytest.fixture(scope="session")
def parts() -> dict[str, list[Pair]]:
    """Return a generated corpus by part."""
    return generate(train_pairs=20_000, valid_pairs=500, test_pairs=500, seed=11)


@pytest.fixture(scope="session")
def corpus(parts: dict[str, list[Pair]]) -> list[tuple[list[str], list[str], tuple[tuple[int, int], ...]]]:
    """Return English words, German words and links of each pair."""
    pairs = [pair for part in parts.values() for pair in part]
    return [(pair.source.split(), pair.target.split(), pair.links or ()) for pair in pairs]
