"""Token-budget batches of a corpus larger than RAM, planned a few shards at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from nmt.text.batches import CorpusPlan, Part, Plan, split_up
from nmt.text.corpus import Corpus
from nmt.text.shards import ShardedCorpus

GROWTH = 1.05  # lengths of one class differ by at most this factor, or by less than one token
NOISE = 1.0  # tokens: pairs are grouped differently in each epoch


def plan_batches(corpus: Corpus, **settings: Any) -> Plan:
    """Return the plan of a corpus: over all its rows at once, or over a few shards at a time."""
    if isinstance(corpus, ShardedCorpus):
        return WindowPlan(corpus, **settings)
    return CorpusPlan(corpus.source_lengths, corpus.target_lengths, **settings)


class WindowPlan:
    """Batches as ``CorpusPlan`` makes them, planned over a few shards at a time.

    The shards are shuffled by (seed, epoch) and cut into windows of ``corpus.window`` shards. A window is planned when
    its first batch is due. Its rows are divided into classes by the length of their longer side, sorted inside a class
    by the difference of the two sides, and cut into batches that fit the budget. What is left of a class moves to
    the next longer one. So the number of batches follows from the headers of the shards, before any row is read.
    """

    def __init__(
        self,
        corpus: ShardedCorpus,
        *,
        max_tokens: int,
        max_sentences: int | None = None,
        shuffle: bool = True,
        seed: int = 1,
    ) -> None:
        self._shuffle, self._seed = shuffle, seed
        self._corpus = corpus
        longest = max(header.lengths[0][-1] for header in corpus.headers) + 1  # </s>
        self._bounds = _class_bounds(longest)
        self._capacities = np.maximum(1, max_tokens // self._bounds)
        if max_sentences is not None:
            self._capacities = np.minimum(self._capacities, max_sentences)
        # Rows of each class in each shard.
        self._classes = np.zeros((len(corpus.headers), len(self._bounds)), dtype=np.int64)
        for counts, header in zip(self._classes, corpus.headers, strict=True):
            lengths, rows = header.lengths
            np.add.at(counts, self._class_of(np.array(lengths) + 1), rows)
        self.count = min(self._largest_count(), len(corpus))

    def parts(self, epoch: int, world_size: int) -> Iterator[Part]:
        shards = np.arange(len(self._corpus.headers))
        if self._shuffle:
            shards = np.random.default_rng([self._seed, epoch]).permutation(shards)
        windows = [shards[start : start + self._corpus.window] for start in range(0, len(shards), self._corpus.window)]
        rows = [self._classes[window].sum(axis=0) for window in windows]
        least = [self._count_batches(classes) for classes in rows]
        room = [int(classes.sum()) - count for classes, count in zip(rows, least, strict=True)]
        counts = np.add(least, _share_out(self.count - sum(least), room)).tolist()
        for number, (window, count) in enumerate(zip(windows, counts, strict=True), 1):
            halved = -self.count % world_size if number == len(windows) else 0
            yield Part(count + halved, partial(self._plan, epoch, number - 1, window, count, halved))

    def _class_of(self, lengths: np.ndarray) -> np.ndarray:
        """Return the number of the class of each length, which counts ``</s>``."""
        return np.searchsorted(self._bounds, lengths)

    def _largest_count(self) -> int:
        """Return a number of batches that no epoch exceeds before its plan is split up."""
        # Σ rows / c over the classes, of capacity c, and for each window Σ (c / c' − 1) + 1: at most c − 1 rows move to
        # the next class, of capacity c', and the last batch may not be full.
        rows = self._classes.sum(axis=0)
        moved = float((self._capacities[:-1] / self._capacities[1:] - 1).clip(min=0).sum())
        windows = math.ceil(len(self._corpus.headers) / self._corpus.window)
        return math.ceil(float((rows / self._capacities).sum()) + windows * (moved + 1))

    def _count_batches(self, rows: np.ndarray) -> int:
        """Return the number of batches of a window with this number of ``rows`` in each class."""
        count = left = 0
        for number, capacity in zip(rows.tolist(), self._capacities.tolist(), strict=True):
            full, left = divmod(number + left, capacity)
            count += full
        return count + (left > 0)

    def _plan(self, epoch: int, number: int, window: np.ndarray, count: int, halved: int) -> list[np.ndarray]:
        """Return the batches of the window ``number``: ``count``, and those that are ``halved`` for equal ranks."""
        starts = self._corpus.starts
        shards = [self._corpus.shard(int(shard)) for shard in window]
        rows = np.concatenate([np.arange(starts[shard], starts[shard + 1]) for shard in window])
        source = np.concatenate([shard.source_lengths for shard in shards])
        target = np.concatenate([shard.target_lengths for shard in shards])
        random = np.random.default_rng([self._seed, epoch, number])
        order = random.permutation(len(rows)) if self._shuffle else np.arange(len(rows))
        longer = np.maximum(source, target) + 1
        difference = (source - target).astype(np.float64)
        if self._shuffle:
            difference += random.uniform(-NOISE, NOISE, len(rows))
        of_class = self._class_of(longer[order])
        batches: list[np.ndarray] = []
        left = order[:0]
        for index, capacity in enumerate(self._capacities.tolist()):
            members = np.concatenate([left, order[of_class == index]])
            full = len(members) // capacity
            kept = members[: full * capacity]
            left = members[full * capacity :]
            kept = kept[np.argsort(difference[kept], kind="stable")]
            batches += np.split(kept, full) if full else []
        if len(left):
            batches.append(left)
        batches = split_up(batches, longer, count)
        if self._shuffle:
            batches = [batches[index] for index in random.permutation(len(batches))]
        return [rows[batch] for batch in split_up(batches, longer, count + halved)]


def _class_bounds(longest: int) -> np.ndarray:
    """Return the longest length of each class, ascending. The last one is ``longest``."""
    bounds = [1]
    while bounds[-1] < longest:
        bounds.append(min(longest, max(bounds[-1] + 1, int(bounds[-1] * GROWTH))))
    return np.array(bounds)


def _share_out(number: int, room: Sequence[int]) -> list[int]:
    """Split ``number``, at most the sum of ``room``, in proportion to ``room``, and at most ``room`` for each."""
    shares = [number * capacity // max(1, sum(room)) for capacity in room]
    for index, capacity in enumerate(room):  # what rounding has left
        shares[index] += min(capacity - shares[index], number - sum(shares))
    return shares
