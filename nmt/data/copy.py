"""The copy task: repeat random words. It is the smallest task that needs attention."""

from __future__ import annotations

import random
from itertools import product
from typing import Annotated

from nmt.data.pair import Pair
from nmt.data.words import count_words
from nmt.errors import UserError, counted
from nmt.settings.arguments import AtLeast, AtMost, PairCount

SYLLABLES = ["".join(letters) for letters in product(("ba", "de", "gi", "ko", "lu"), ("n", "r", "s", "t"))]
WORDS = SYLLABLES + ["".join(syllables) for syllables in product(SYLLABLES, repeat=2)]


Length = Annotated[int, AtLeast(1), AtMost(1000)]


def generate(
    *,
    train_pairs: PairCount,
    valid_pairs: PairCount,
    test_pairs: PairCount,
    seed: int,
    min_words: Length = 1,
    max_words: Length = 10,
    vocabulary: Annotated[int, AtLeast(1), AtMost(len(WORDS))] = 20,
) -> dict[str, list[Pair]]:
    """Return distinct pairs by part (train, valid, test); source and target are equal, word i is linked to word i.

    A sentence has ``min_words`` to ``max_words`` words, of the first ``vocabulary`` ones of ``WORDS``. All lengths and
    all words are equally likely. Python callers may ask for 0 pairs of a part. Raises UserError if more than half of
    all distinct sentences are requested, because drawing the last ones would take long.
    """
    sizes = {"train": train_pairs, "valid": valid_pairs, "test": test_pairs}
    if min_words > max_words:
        raise UserError(f"data.min_words={min_words}: must be at most data.max_words={max_words}")
    words = WORDS[:vocabulary]
    total = sum(sizes.values())
    limit = sum(vocabulary**length for length in range(min_words, max_words + 1)) // 2
    if total > limit:
        raise UserError(
            f"data.max_words={max_words}: allows {counted(limit, 'distinct sentence')} with "
            f"data.vocabulary={vocabulary}, {total} are requested; ask for fewer pairs or raise max_words"
        )
    rng = random.Random(seed)
    texts: dict[str, None] = {}
    while len(texts) < total:
        texts[" ".join(rng.choices(words, k=rng.randint(min_words, max_words)))] = None
    pairs = (Pair(text, text, tuple((i, i) for i in range(count_words(text)))) for text in texts)
    return {part: [next(pairs) for _ in range(size)] for part, size in sizes.items()}
