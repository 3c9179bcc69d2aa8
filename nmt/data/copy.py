"""The copy task: repeat random words. It is the smallest task that needs attention."""

from __future__ import annotations

import random
from itertools import product
from typing import Annotated

from nmt.data.links import Pair
from nmt.errors import UserError, counted
from nmt.settings.arguments import AtLeast, AtMost, PairCount

WORDS = ["".join(letters) for letters in product(("ba", "de", "gi", "ko", "lu"), ("n", "r", "s", "t"))]


def generate(
    *,
    train_pairs: PairCount,
    valid_pairs: PairCount,
    test_pairs: PairCount,
    max_words: Annotated[int, AtLeast(1), AtMost(1000)] = 10,
) -> dict[str, list[Pair]]:
    """Return distinct pairs by part (train, valid, test); source and target are equal, word i is linked to word i.

    All lengths and all words are equally likely. Python callers may ask for 0 pairs of a part. Raises UserError if more
    than half of all distinct sentences are requested, because drawing the last ones would take long.
    """
    sizes = {"train": train_pairs, "valid": valid_pairs, "test": test_pairs}
    total = sum(sizes.values())
    limit = sum(len(WORDS) ** length for length in range(1, max_words + 1)) // 2
    if total > limit:
        raise UserError(
            f"data.max_words={max_words}: allows {counted(limit, 'sentence')}, {total:,} are requested; raise it"
        )
    rng = random.Random(1)
    texts: dict[str, int] = {}
    while len(texts) < total:
        count = rng.randint(1, max_words)
        texts[" ".join(rng.choices(WORDS, k=count))] = count
    pairs = (Pair(text, text, tuple((i, i) for i in range(count))) for text, count in texts.items())
    return {part: [next(pairs) for _ in range(size)] for part, size in sizes.items()}
