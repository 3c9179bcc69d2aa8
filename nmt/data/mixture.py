"""Mix corpora by weight. Every reading yields the same pairs in the same order."""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

from nmt.data.pair import Pair
from nmt.data.text_files import iterate_pairs, read_lines

SEED = 1  # of the pairs that a weight with a fraction selects


class FilePairs:
    """The sentence pairs of parallel files, which are read again for each iteration.

    A file of weight 2 is read twice; of one of weight 0.5, half of the pairs are drawn at random. The files are
    interleaved evenly, whatever their sizes.
    """

    def __init__(self, sources: Sequence[Path], targets: Sequence[Path], weights: Sequence[float]) -> None:
        self._files = list(zip(sources, targets, weights, strict=True))
        self._sizes: list[int] | None = None

    def __iter__(self) -> Iterator[Pair]:
        if len(self._files) == 1 and self._files[0][2] == 1:
            return iterate_pairs(*self._files[0][:2])
        return self._mixed()

    def _mixed(self) -> Iterator[Pair]:
        if self._sizes is None:
            self._sizes = [sum(1 for _ in read_lines(source)) for source, _, _ in self._files]
        expected = [weight * size for (_, _, weight), size in zip(self._files, self._sizes, strict=True)]
        streams = [self._weighted(number) for number in range(len(self._files))]
        # (share of its pairs that a file has given, with the next one; number of the file; pairs given)
        due = [(0.5 / count, number, 0) for number, count in enumerate(expected)]
        heapq.heapify(due)
        while due:
            _, number, given = heapq.heappop(due)
            if (pair := next(streams[number], None)) is not None:
                yield pair
                heapq.heappush(due, ((given + 1.5) / expected[number], number, given + 1))

    def _weighted(self, number: int) -> Iterator[Pair]:
        """Yield the pairs of one file as often as its weight says."""
        source, target, weight = self._files[number]
        times, fraction = divmod(weight, 1)
        for _ in range(int(times)):
            yield from iterate_pairs(source, target)
        if fraction:
            generator = random.Random(f"{SEED} {number}")
            yield from (pair for pair in iterate_pairs(source, target) if generator.random() < fraction)
