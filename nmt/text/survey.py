"""Read a training corpus once: count its pairs, draw a sample for the tokenizer, and compute a digest of its text."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b

from nmt.errors import UserError
from nmt.progress import Progress
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
    digest = _Digest()
    generator = random.Random(SEED)
    sample: list[tuple[int, Pair]] = []
    count = 0
    for pair in Progress("pair", title="reading the training text").watch(pairs):
        digest.add(pair)
        if count < SAMPLE_PAIRS:
            sample.append((count, pair))
        elif (place := int(generator.random() * (count + 1))) < SAMPLE_PAIRS:
            sample[place] = (count, pair)
        count += 1
    sample.sort(key=lambda item: item[0])
    return Survey(count, [pair for _, pair in sample], digest.text)


def unchanged(pairs: Iterable[Pair], surveyed: Survey) -> Iterator[Pair]:
    """Yield the pairs again. Raises UserError after the last one if they are not those of the survey."""
    digest = _Digest()
    for pair in pairs:
        digest.add(pair)
        yield pair
    if digest.text != surveyed.digest:
        raise UserError("data.train: the text changed while it was read; run the command again when it is complete")


class _Digest:
    """A digest of the text of pairs, in their order."""

    def __init__(self) -> None:
        self._digest = blake2b(digest_size=16)

    def add(self, pair: Pair) -> None:
        self._digest.update(repr(tuple(pair)).encode("ascii", "backslashreplace"))

    @property
    def text(self) -> str:
        return self._digest.hexdigest()
