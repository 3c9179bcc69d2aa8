"""A corpus of distinct pairs in three parts, the test's words all seen in training."""

from __future__ import annotations

import gc
import random
from collections.abc import Iterator
from typing import Annotated

from nmt.bounds import AtLeast
from nmt.errors import UserError
from nmt.tasks.grammar.draw_sentences import Sentences
from nmt.tasks.grammar.pairing import say
from nmt.tasks.grammar.vocabulary import Vocabulary
from nmt.text.pair import Pair

SHORTEST, LONGEST = 3, 40  # words, either side
FULL_LEXICON = 10_000  # training pairs that show every word of the whole lexicon often enough
PATIENCE = 20_000  # draws in a row without a new pair that fits


def generate(
    *,
    train_pairs: Annotated[int, AtLeast(1)],
    valid_pairs: Annotated[int, AtLeast(1)],
    test_pairs: Annotated[int, AtLeast(1)],
    seed: int,
) -> dict[str, list[Pair]]:
    """Pairs of the three parts, the same for the same arguments on every machine.

    No English sentence occurs twice. Every word of valid and test, on both sides, occurs in train.
    Raises UserError where so many distinct pairs cannot be drawn.
    """
    train, valid, test = train_pairs, valid_pairs, test_pairs
    for part, count in {"train": train, "valid": valid, "test": test}.items():
        if count < 0:
            raise UserError(f"data.{part}_pairs={count}: must be at least 0")
    tracing = gc.isenabled()
    gc.disable()  # trees have no cycles; half the time would go into looking for some
    try:
        drawn = distinct_pairs(seed, min(1.0, train / FULL_LEXICON))
        parts = {"train": [next(drawn) for _ in range(train)]}
        sources = {word for pair in parts["train"] for word in pair.source.split()}
        targets = {word for pair in parts["train"] for word in pair.target.split()}
        for part, count in {"valid": valid, "test": test}.items():
            parts[part] = list(covered(drawn, sources, targets, part, count))
    finally:
        if tracing:
            gc.enable()
    return parts


def distinct_pairs(seed: int, share: float) -> Iterator[Pair]:
    """Pairs of 3 to 40 words without end, no English sentence twice, from a share of the lexicon."""
    sentences = Sentences(random.Random(seed), Vocabulary(share))
    seen: set[str] = set()
    failures = 0
    while failures < PATIENCE:
        pair = say(sentences.sentence())
        source, target = pair.source.count(" ") + 1, pair.target.count(" ") + 1
        if pair.source in seen or not (min(source, target) >= SHORTEST and max(source, target) <= LONGEST):
            failures += 1
            continue
        failures = 0
        seen.add(pair.source)
        yield pair
    raise UserError(
        f"data.kind=generated: no more than {len(seen):,} distinct sentences were found; ask for fewer pairs"
    )


def covered(drawn: Iterator[Pair], sources: set[str], targets: set[str], part: str, count: int) -> Iterator[Pair]:
    """``count`` pairs all of whose words are known."""
    failures = 0
    while count:
        pair = next(drawn)
        if sources.issuperset(pair.source.split()) and targets.issuperset(pair.target.split()):
            failures, count = 0, count - 1
            yield pair
        else:
            failures += 1
        if failures == PATIENCE:
            raise UserError(f"data.{part}_pairs: too little training text to know every word; raise data.train_pairs")
