"""Read a training corpus once: count its pairs, draw a sample for the tokenizer, and compute a digest of its text."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b

from nmt.text.pair import Pair

SAMPLE_PAIRS = 200_000  # a tokenizer learns from at most this many training pairs
SEED = 1  # of the sample


@dataclass
class Survey:
    """The number of training pairs, a random ``sample`` of them in their order, and the digest of all text."""

    count: int
    sample: list[Pair]
    digest: str

    @property
    def is_complete(self) -> bool:
        """Whether the sample holds every pair."""
        return len(self.sample) == self.count


def survey(pairs: Iterable[Pair]) -> Survey:
    """Return the survey of the pairs. All pairs are equally likely in its sample (Vitter's algorithm R)."""
    digest = blake2b(digest_size=16)
    generator = random.Random(SEED)
    sample: list[tuple[int, Pair]] = []
    count = 0
    for pair in pairs:
        digest.update(repr(tuple(pair)).encode("ascii", "backslashreplace"))
        if count < SAMPLE_PAIRS:
            sample.append((count, pair))
        elif (place := int(generator.random() * (count + 1))) < SAMPLE_PAIRS:
            sample[place] = (count, pair)
        count += 1
    sample.sort(key=lambda item: item[0])
    return Survey(count, [pair for _, pair in sample], digest.hexdigest())
