"""Token-budget batches of a corpus larger than memory, planned a few shards at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from nmt.text.batches import TokenBatches
from nmt.text.corpus import Corpus
from nmt.text.shards import ShardedCorpus
from nmt.text.sharing import EpochBatches, after_rows, row_count, split_up

GROWTH = 1.05  # lengths of one class differ by at most this factor, or by less than one piece
NOISE = 1.0  # pieces: pairs are grouped differently in each epoch


class Window(NamedTuple):
    """Some shards that are planned together, as the part ``number`` of an epoch."""

    number: int
    shards: np.ndarray
    planned: int
    """Batches of a complete window."""
    skipped: int = 0
    """Rows of the first batches, which were used before a run was resumed with another number of processes."""
    batches: int = 0
    """Batches of all ranks without the skipped rows, and with those that are halved for ranks to be equal."""


class WindowedBatches(EpochBatches):
    """Lists of corpus rows for one epoch, as ``TokenBatches`` yields them, from a few shards at a time.

    The shards are shuffled by (seed, epoch) and cut into windows of ``corpus.window`` shards. A window is planned when
    its first batch is due. Its rows are divided into classes by the length of their longer side, sorted inside a class
    by the difference of the two sides, and cut into batches that fit the budget. What is left of a class moves to
    the next longer one. So the number of batches follows from the headers of the shards, before any row is read.

    Every row occurs once in an epoch, and the number of batches is the same in every epoch. A rank takes every
    ``world_size``-th batch; some of the last window are halved, so that all ranks have equally many.
    """

    def __init__(
        self,
        corpus: ShardedCorpus,
        *,
        max_tokens: int,
        max_sentences: int | None = None,
        shuffle: bool = True,
        seed: int = 1,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        super().__init__(shuffle=shuffle, seed=seed, rank=rank, world_size=world_size)
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
        self._count = min(self._most_batches(), len(corpus))

    def _used_rows(self, batches: int, world_size: int) -> int:
        rows = 0
        for window in self._windows(world_size):
            if batches < window.batches:
                return rows + row_count(self._batches(window)[:batches])
            rows += int(self._classes[window.shards].sum()) - window.skipped
            batches -= window.batches
        return rows

    def __len__(self) -> int:
        rest = sum(window.batches for window in self._windows(self._world_size)) if self._start[1] else self._count
        count = self._start[0] + math.ceil(rest / self._world_size)
        return count if self._most is None else min(count, self._most)

    def __iter__(self) -> Iterator[list[int]]:
        before = self._start[0]
        first, self._first = self._first, before
        last, start = len(self), 0  # batches of all ranks in earlier windows
        for window in self._windows(self._world_size):
            numbers = [(before + (start + place) // self._world_size, place) for place in range(window.batches)]
            wanted = [(number, place) for number, place in numbers if first <= number < last]
            if wanted:
                batches = self._batches(window)
                for number, place in wanted:
                    if (start + place) % self._world_size == self._rank:
                        self.done = number + 1
                        yield batches[place].tolist()
            start += window.batches

    def _class_of(self, lengths: np.ndarray) -> np.ndarray:
        """Return the number of the class of each length, which counts ``</s>``."""
        return np.searchsorted(self._bounds, lengths)

    def _most_batches(self) -> int:
        """Return a number of batches that no epoch exceeds before its plan is split up.

        A class of capacity c moves at most c − 1 rows on, which adds less than c / c' − 1 batches of capacity c'. The
        last class of a window may add one batch that is not full.
        """
        rows = self._classes.sum(axis=0)
        moved = float((self._capacities[:-1] / self._capacities[1:] - 1).clip(min=0).sum())
        windows = math.ceil(len(self._corpus.headers) / self._corpus.window)
        most = math.ceil(float((rows / self._capacities).sum()) + windows * (moved + 1))
        return most

    def _windows(self, world_size: int) -> list[Window]:
        """Return the windows of this epoch that ``_start`` leaves, with batches for ``world_size`` ranks."""
        windows, used = [], self._start[1]
        for window in self._all_windows():
            rows = int(self._classes[window.shards].sum())
            if 0 < used < rows:
                count = len(after_rows(self._plan(window)[0], used))
                windows.append(window._replace(skipped=used, batches=count))
            elif used == 0:
                windows.append(window._replace(batches=window.planned))
            used = max(0, used - rows)
        if windows:
            total = sum(window.batches for window in windows)
            windows[-1] = windows[-1]._replace(batches=windows[-1].batches + -total % world_size)
        return windows

    def _all_windows(self) -> list[Window]:
        """Return the windows of this epoch. Their batches add up to the same number in every epoch."""
        shards = np.arange(len(self._corpus.headers))
        if self._shuffle:
            shards = np.random.default_rng([self._seed, self._epoch]).permutation(shards)
        windows = [shards[at : at + self._corpus.window] for at in range(0, len(shards), self._corpus.window)]
        planned = [self._count_batches(self._classes[window].sum(axis=0)) for window in windows]
        rows = [int(self._classes[window].sum()) for window in windows]
        room = [most - least for most, least in zip(rows, planned, strict=True)]
        extra = _share_out(self._count - sum(planned), room)
        counts = zip(windows, np.add(planned, extra), strict=True)
        return [Window(number, shards, int(count)) for number, (shards, count) in enumerate(counts)]

    def _count_batches(self, rows: np.ndarray) -> int:
        """Return the number of batches of a window with this number of ``rows`` in each class."""
        count = left = 0
        for number, capacity in zip(rows.tolist(), self._capacities.tolist(), strict=True):
            full, left = divmod(number + left, capacity)
            count += full
        return count + (left > 0)

    def _batches(self, window: Window) -> list[np.ndarray]:
        """Return the corpus rows of the batches of a window, in order."""
        batches, rows, longer = self._plan(window)
        if window.skipped:
            batches = after_rows(batches, window.skipped)
        return [rows[batch] for batch in split_up(batches, longer, window.batches)]

    def _plan(self, window: Window) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
        """Return the batches of a complete window as places in its rows, its rows, and their longer sides."""
        starts, shards = self._corpus.starts, [self._corpus.shard(int(shard)) for shard in window.shards]
        rows = np.concatenate([np.arange(starts[shard], starts[shard + 1]) for shard in window.shards])
        source = np.concatenate([shard.source_lengths for shard in shards])
        target = np.concatenate([shard.target_lengths for shard in shards])
        random = np.random.default_rng([self._seed, self._epoch, window.number])
        order = random.permutation(len(rows)) if self._shuffle else np.arange(len(rows))
        longer = np.maximum(source, target) + 1
        difference = (source - target).astype(np.float64)
        if self._shuffle:
            difference += random.uniform(-NOISE, NOISE, len(rows))
        of_class = self._class_of(longer[order])
        batches = []
        left = order[:0]
        for index, capacity in enumerate(self._capacities.tolist()):
            members = np.concatenate([left, order[of_class == index]])
            full = len(members) // capacity
            kept, left = members[: full * capacity], members[full * capacity :]
            kept = kept[np.argsort(difference[kept], kind="stable")]
            batches += np.split(kept, full) if full else []
        if len(left):
            batches.append(left)
        batches = split_up(batches, longer, window.planned)
        if self._shuffle:
            batches = [batches[place] for place in random.permutation(len(batches))]
        return batches, rows, longer


def epoch_batches(corpus: Corpus, **settings: Any) -> EpochBatches:
    """Return the sampler of a corpus: over all its rows at once, or over a few shards at a time."""
    if isinstance(corpus, ShardedCorpus):
        return WindowedBatches(corpus, **settings)
    return TokenBatches(corpus.source_lengths, corpus.target_lengths, **settings)


def _class_bounds(longest: int) -> np.ndarray:
    """Return the longest length of each class, ascending. The last one is ``longest``."""
    bounds = [1]
    while bounds[-1] < longest:
        bounds.append(min(longest, max(bounds[-1] + 1, int(bounds[-1] * GROWTH))))
    return np.array(bounds)


def _share_out(number: int, room: Sequence[int]) -> list[int]:
    """Return the part of ``number`` for each place, in proportion to ``room``; the last place gets any excess."""
    shares = [number * places // max(1, sum(room)) for places in room]
    shares = [min(share, places) for share, places in zip(shares, room, strict=True)]
    for index, places in enumerate(room):
        shares[index] += min(places - shares[index], number - sum(shares))
    shares[-1] += number - sum(shares)
    return shares
