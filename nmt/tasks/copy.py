"""The copy task: repeat random words. It is the smallest task that needs attention."""

from __future__ import annotations

import random
from itertools import product
from typing import Annotated

from nmt.bounds import AtLeast, AtMost, PairCount
from nmt.errors import UserError, counted
from nmt.text.pair import Pair

WORDS = ["".join(syllables) for syllables in product(("ba", "de", "gi", "ko", "lu"), ("n", "r", "s", "t"))]


def generate(
    *,
    train_pairs: PairCount,
    valid_pairs: PairCount,
    test_pairs: PairCount,
    seed: int,
    max_words: Annotated[int, AtLeast(1), AtMost(1000)] = 10,
) -> dict[str, list[Pair]]:
    """Return distinct pairs by part (train, valid, test); source and target are equal, word i is linked to word i.

    A sentence has 1 to ``max_words`` words. Python callers may ask for 0 pairs of a part. Raises UserError if more
    than half of all distinct sentences are requested, because drawing the last ones would take long.
    """
    sizes = {"train": train_pairs, "valid": valid_pairs, "test": test_pairs}
    for part, size in sizes.items():
        if size < 0:
            raise UserError(f"data.{part}_pairs={size}: must be at least 0")
    total, limit = sum(sizes.values()), sum(len(WORDS) ** length for length in range(1, max_words + 1)) // 2
    if total > limit:
        raise UserError(
            f"data.max_words={max_words}: allows {counted(limit, 'distinct sentence')}, {total} are requested; "
            "ask for fewer pairs or raise max_words"
        )
    rng = random.Random(seed)
    texts: dict[str, None] = {}
    while len(texts) < total:
        texts[" ".join(rng.choices(WORDS, k=rng.randint(1, max_words)))] = None
    pairs = (Pair(text, text, tuple((i, i) for i in range(len(text.split())))) for text in texts)
    return {part: [next(pairs) for _ in range(size)] for part, size in sizes.items()}
