"""Token-budget batches: sentences of similar length on both sides are grouped, then padded into tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import islice
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Sampler

from nmt.text.corpus import Corpus
from nmt.text.sampled import SampledPieces
from nmt.text.specials import BOS, EOS, PAD

NOISE = 0.02  # in a shuffled epoch, the lengths that buckets are sorted by vary by up to this share
FILL = 0.9  # share of the budget that a planned batch fills; with 1, half of the batches would overflow and be split
REDRAWS = 4  # attempts per epoch at a plan with no more batches than promised


class Batch(NamedTuple):
    """B sentence pairs, padded. Masks are True at real positions, ``</s>`` included."""

    source: Tensor  # (B, S) int64: x </s>
    source_mask: Tensor  # (B, S) bool
    target_in: Tensor  # (B, T) int64: <s> y
    target_out: Tensor  # (B, T) int64: y </s>
    target_mask: Tensor  # (B, T) bool
    index: Tensor  # type: ignore[assignment]  # (B,) int64: the corpus rows; hides tuple.index


def collate(corpus: Corpus | SampledPieces, rows: Sequence[int]) -> Batch:
    """Return the batch of these corpus rows, in this order."""
    pairs = [corpus.ids(row) for row in rows]
    source, source_mask = _pad([x for x, _ in pairs])
    target_out, target_mask = _pad([y for _, y in pairs])
    target_in = np.full_like(target_out, PAD)
    target_in[:, 0] = BOS
    # The input at step t is the output of step t − 1. The mask drops </s>.
    target_in[:, 1:] = np.where(target_mask[:, 1:], target_out[:, :-1], PAD)
    arrays = (source, source_mask, target_in, target_out, target_mask, np.asarray(rows, dtype=np.int64))
    return Batch(*(torch.from_numpy(array) for array in arrays))


def _pad(sequences: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return ids (B, L) int64, each row ending in EOS and padding, and the mask (B, L) bool."""
    lengths = np.array([len(ids) for ids in sequences])
    mask = np.arange(lengths.max() + 1) <= lengths[:, None]
    padded = np.full(mask.shape, PAD, dtype=np.int64)
    for row, ids in zip(padded, sequences, strict=True):
        row[: len(ids)] = ids
        row[len(ids)] = EOS
    return padded, mask


@dataclass(frozen=True)
class Part:
    """Consecutive batches of an epoch that are planned together: their number, and the function that plans them."""

    count: int
    plan: Callable[[], list[np.ndarray]]


class Plan(Protocol):
    """The batches of any epoch, as arrays of corpus rows."""

    @property
    def count(self) -> int:
        """The number of batches, which is the same in every epoch."""

    def parts(self, epoch: int, world_size: int) -> Iterator[Part]:
        """Yield the parts of an epoch, counted from 0, in order.

        They depend only on the arguments. The last ones may have more batches than ``count``: a few are halved, so that
        the number of batches is a multiple of ``world_size``.
        """


class EpochBatches(Sampler[list[int]]):
    """The batches of one rank in one epoch, as lists of corpus rows: every ``world_size``-th one from ``rank`` on.

    The first ``skip`` batches of the rank are left out, but its length counts them. Its length also counts ``before``
    batches that belong to no plan: those of an epoch that starts again. ``limit`` is the maximum length, at least 1.
    """

    def __init__(
        self,
        plan: Plan,
        epoch: int = 0,
        *,
        rank: int = 0,
        world_size: int = 1,
        skip: int = 0,
        before: int = 0,
        limit: int | None = None,
    ) -> None:
        self.plan, self.epoch = plan, epoch
        self.rank, self.world_size = rank, world_size
        self.skip, self.before = skip, before
        length = before + math.ceil(plan.count / world_size)
        self.length = length if limit is None else min(length, max(1, limit))

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[list[int]]:
        numbers = range(self.skip, self.length - self.before)
        start = 0  # batches of all ranks in earlier parts
        for part in self.plan.parts(self.epoch, self.world_size):
            indices = [number * self.world_size + self.rank - start for number in numbers]
            if due := [index for index in indices if 0 <= index < part.count]:
                batches = part.plan()
                yield from (batches[index].tolist() for index in due)
            start += part.count


class SegmentPlan:
    """Epochs of ``count`` batches, cut from the endless sequence of the epochs of another ``plan``."""

    def __init__(self, plan: Plan, count: int) -> None:
        self.plan, self.count = plan, count
        # Consecutive segments share a part, whose planning takes long for a large corpus.
        self._planned = lru_cache(maxsize=1)(self._plan_part)

    def parts(self, epoch: int, world_size: int) -> Iterator[Part]:
        segment = _multiple(self.count, world_size)
        full_epoch = _multiple(self.plan.count, world_size)
        start = epoch * segment
        end = start + segment
        for number in range(start // full_epoch, math.ceil(end / full_epoch)):
            offset = number * full_epoch
            for index, part in enumerate(self.plan.parts(number, world_size)):
                first = max(0, start - offset)
                last = min(part.count, end - offset)
                if first < last:
                    yield Part(last - first, partial(self._slice, number, world_size, index, first, last))
                offset += part.count

    def _slice(self, epoch: int, world_size: int, index: int, first: int, last: int) -> list[np.ndarray]:
        return self._planned(epoch, world_size, index)[first:last]

    def _plan_part(self, epoch: int, world_size: int, index: int) -> list[np.ndarray]:
        """Return the batches of one part of an epoch of the other plan."""
        return next(islice(self.plan.parts(epoch, world_size), index, None)).plan()


class CorpusPlan:
    """Batches within the token budget and with little padding on either side, planned over a whole corpus.

    Every row occurs once. ``max_tokens`` bounds rows × the longest sentence of either side, counting ``</s>``; a
    longer sentence forms a batch alone. The corpus is halved repeatedly, each time by the side (source or target
    length) that leaves less padding, until every part fits.

    With ``shuffle``, the lengths get a little noise and the batches a random order. Both depend only on (seed, epoch).
    """

    def __init__(
        self,
        source_lengths: np.ndarray,
        target_lengths: np.ndarray,
        *,
        max_tokens: int,
        max_sentences: int | None = None,
        shuffle: bool = True,
        seed: int = 1,
    ) -> None:
        self._shuffle, self._seed = shuffle, seed
        self._source = np.asarray(source_lengths, dtype=np.float64) + 1  # </s>
        self._target = np.asarray(target_lengths, dtype=np.float64) + 1
        self._longer_side = np.maximum(self._source, self._target)
        self._max_tokens = max_tokens
        self._max_sentences = max_sentences or len(self._longer_side)
        self._exact = self._buckets(np.arange(len(self._longer_side)), self._source, self._target)
        # The number of batches is fixed here, with some slack above one noisy plan. A later epoch's plan may need a
        # few batches more or less, and can then be split up to exactly this number.
        count = max(len(self._exact), len(self._noisy(0, 0))) if shuffle else len(self._exact)
        count += len(self._exact) // 50 if shuffle else 0
        self.count = min(count, len(self._longer_side))

    def parts(self, epoch: int, world_size: int) -> Iterator[Part]:
        count = _multiple(self.count, world_size)
        yield Part(count, partial(self._plan, epoch, count))

    def _plan(self, epoch: int, count: int) -> list[np.ndarray]:
        batches = list(self._exact)
        if self._shuffle:
            plans = (self._noisy(epoch, attempt) for attempt in range(REDRAWS))
            batches = next((plan for plan in plans if len(plan) <= self.count), batches)
        if len(batches) < self.count:  # the largest first, because the shuffled order depends on the order before it
            batches = sorted(batches, key=lambda rows: -batch_cost(rows, self._longer_side))
            batches = split_up(batches, self._longer_side, self.count)
        if self._shuffle:
            np.random.default_rng([self._seed, epoch]).shuffle(batches)
        return split_up(batches, self._longer_side, count)

    def _noisy(self, epoch: int, attempt: int) -> list[np.ndarray]:
        random = np.random.default_rng([self._seed, epoch, attempt])
        source, target = (
            lengths * random.uniform(1 - NOISE, 1 + NOISE, len(lengths)) for lengths in (self._source, self._target)
        )
        return self._buckets(random.permutation(len(source)), source, target)

    def _buckets(self, rows: np.ndarray, source: np.ndarray, target: np.ndarray) -> list[np.ndarray]:
        """Halve the rows until every part fits the budget, sorting by the keys ``source`` or ``target``."""
        lengths = self._longer_side[rows]
        fits = len(rows) <= self._max_sentences and len(rows) * lengths.max() <= self._max_tokens
        if len(rows) == 1 or fits:
            return [rows]
        need = max(2, math.ceil(max(lengths.sum() / (FILL * self._max_tokens), len(rows) / self._max_sentences)))
        share = (need // 2) / need  # so that both halves hold whole batches
        splits = [self._halve(rows[np.argsort(key[rows], kind="stable")], share) for key in (source, target)]
        lower, upper = min(splits, key=self._padded_size)
        return self._buckets(lower, source, target) + self._buckets(upper, source, target)

    def _halve(self, rows: np.ndarray, share: float) -> tuple[np.ndarray, np.ndarray]:
        tokens = np.cumsum(self._longer_side[rows])
        cut = int(np.clip(np.searchsorted(tokens, tokens[-1] * share), 1, len(rows) - 1))
        return rows[:cut], rows[cut:]

    def _padded_size(self, parts: Sequence[np.ndarray]) -> float:
        return sum(len(part) * float(self._source[part].max() + self._target[part].max()) for part in parts)


def split_up(batches: list[np.ndarray], lengths: np.ndarray, count: int) -> list[np.ndarray]:
    """Return ``count`` batches: the largest are halved in place; once all have one row, some are repeated.

    ``lengths`` are those of the longer side of each row.
    """
    while batches and len(batches) < count:
        costs = [batch_cost(rows, lengths) for rows in batches]
        divisible = sum(cost > 0 for cost in costs) or len(batches)
        missing = min(divisible, count - len(batches))
        largest = set(np.argsort([-cost for cost in costs], kind="stable")[:missing].tolist())
        halves = [_halves(rows) if index in largest else [rows] for index, rows in enumerate(batches)]
        batches = [half for pair in halves for half in pair]
    return batches


def _multiple(count: int, world_size: int) -> int:
    """Return the smallest multiple of ``world_size`` that is at least ``count``."""
    return math.ceil(count / world_size) * world_size


def batch_cost(rows: np.ndarray, lengths: np.ndarray) -> float:
    """Return the padded size of a batch that can be halved, or 0."""
    return len(rows) * (len(rows) > 1) * float(lengths[rows].max())


def _halves(rows: np.ndarray) -> list[np.ndarray]:
    return np.array_split(rows, 2) if len(rows) > 1 else [rows, rows]
