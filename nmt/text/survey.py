"""Read a training corpus once: count pairs, draw a sample for the tokenizer, compute the fingerprint of its text."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256

from nmt.data.pair import Pair
from nmt.errors import UserError
from nmt.system.progress import Progress

SAMPLE_PAIRS = 200_000  # a tokenizer learns from at most this many training pairs
SEED = 1  # of the sample


@dataclass
class Survey:
    """The number of training pairs, a random ``sample`` of them in their order, and the fingerprint of all text."""

    count: int
    sample: list[Pair]
    fingerprint: str

    @property
    def is_complete(self) -> bool:
        """Whether the sample holds every pair."""
        return len(self.sample) == self.count


def survey(pairs: Iterable[Pair]) -> Survey:
    """Return the survey of the pairs. All pairs are equally likely in its sample (Vitter's algorithm R)."""
    digest = sha256()
    generator = random.Random(SEED)
    sample: list[tuple[int, Pair]] = []
    count = 0
    for pair in Progress("pair", title="reading the training text").watch(pairs):
        digest.update(_bytes(pair))
        if count < SAMPLE_PAIRS:
            sample.append((count, pair))
        elif (place := int(generator.random() * (count + 1))) < SAMPLE_PAIRS:
            sample[place] = (count, pair)
        count += 1
    sample.sort(key=lambda item: item[0])
    return Survey(count, [pair for _, pair in sample], digest.hexdigest())


def unchanged(pairs: Iterable[Pair], surveyed: Survey) -> Iterator[Pair]:
    """Yield the pairs again. Raises UserError after the last one if they are not those of the survey."""
    digest = sha256()
    for pair in pairs:
        digest.update(_bytes(pair))
        yield pair
    if digest.hexdigest() != surveyed.fingerprint:
        raise UserError("data.train: the text changed while it was read; run the command again when it is complete")


def _bytes(pair: Pair) -> bytes:
    return repr(tuple(pair)).encode("ascii", "backslashreplace")
