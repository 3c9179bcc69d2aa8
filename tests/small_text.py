"""Small prepared text for tests."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from nmt.data.filters import Filters
from nmt.data.links import Pair
from nmt.text.prepare import Prepared, prepare
from nmt.text.tokenizer import TokenizerSettings

WORDS = "a man in blue shirt two dogs run through deep snow ein Mann läuft Hund Schnee".split()
SETTINGS = TokenizerSettings(kind="bpe", vocab_size=320, character_coverage=1.0)


def random_pairs(count: int, *, seed: int = 5, longest: int = 12) -> list[Pair]:
    generator = random.Random(seed)

    def sentence() -> str:
        return " ".join(generator.choices(WORDS, k=generator.randrange(1, longest)))

    return [Pair(sentence(), sentence(), ((0, 0),) if row % 2 else None) for row in range(count)]


def prepared_text(folder: Path, pairs: list[Pair], *, workers: int = 1, **filters: Any) -> Prepared:
    return prepare({"train": pairs, "valid": pairs[:9]}, Filters(**filters), SETTINGS, folder, workers=workers)
