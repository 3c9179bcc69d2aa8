"""The copy task: random words to be repeated, the smallest task that needs attention."""

from __future__ import annotations

import random
from itertools import product

from nmt.errors import UserError
from nmt.text.pair import Pair

WORDS = ["".join(syllables) for syllables in product(("ba", "de", "gi", "ko", "lu"), ("n", "r", "s", "t"))]


def generate(*, train: int, valid: int, test: int, seed: int, max_words: int = 10) -> dict[str, list[Pair]]:
    """Distinct pairs of equal sides, 1 to ``max_words`` words long, with links from each word to itself.

    Raises UserError where fewer than twice as many distinct sentences exist: drawing the last ones would take long.
    """
    for part, count in {"train": train, "valid": valid, "test": test}.items():
        if count < 0:
            raise UserError(f"data.{part}_pairs={count}: must be at least 0")
    draw = random.Random(seed)
    wanted = train + valid + test
    if wanted > sum(len(WORDS) ** n for n in range(1, max_words + 1)) // 2:
        raise UserError(
            f"data.kind=copy: {wanted} distinct sentences of at most {max_words} words are too many; ask for fewer"
        )
    seen: dict[str, None] = {}
    while len(seen) < wanted:
        seen[" ".join(draw.choices(WORDS, k=draw.randint(1, max_words)))] = None
    pairs = [Pair(text, text, tuple((i, i) for i in range(len(text.split())))) for text in seen]
    return {"train": pairs[:train], "valid": pairs[train : train + valid], "test": pairs[train + valid :]}
