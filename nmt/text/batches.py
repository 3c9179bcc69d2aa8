"""Token-budget batches: sentences of similar length on both sides are grouped, then padded into tensors."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from nmt.text.corpus import Corpus
from nmt.text.sampled import SampledPieces
from nmt.text.sharing import EpochBatches, after_rows, batch_cost, row_count, shared_batches, split_up
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


class TokenBatches(EpochBatches):
    """Lists of corpus rows for one epoch, each within the token budget and with little padding on either side.

    Every row occurs once. ``max_tokens`` bounds rows × the longest sentence of either side, counting ``</s>``; a
    longer sentence forms a batch alone. The corpus is halved repeatedly, each time by the side (source or target
    length) that leaves less padding, until every part fits.

    With ``shuffle``, the lengths get a little noise and the batches a random order. Both depend only on
    (seed, epoch), and the number of batches is the same in every epoch. Each of ``world_size`` ranks gets equally
    many batches, for which a few are halved.
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
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        super().__init__(shuffle=shuffle, seed=seed, rank=rank, world_size=world_size)
        self._source = np.asarray(source_lengths, dtype=np.float64) + 1  # </s>
        self._target = np.asarray(target_lengths, dtype=np.float64) + 1
        self._longer_side = np.maximum(self._source, self._target)
        self._max_tokens = max_tokens
        self._max_sentences = max_sentences or len(self._longer_side)
        self._cached_plan: tuple[int, list[np.ndarray]] | None = None
        self._exact = self._buckets(np.arange(len(self._longer_side)), self._source, self._target)
        # The number of batches is fixed here, with some slack above one noisy plan. A later epoch's plan may need a
        # few batches more or less, and can then be split up to exactly this number.
        count = max(len(self._exact), len(self._noisy(0, 0))) if shuffle else len(self._exact)
        count += len(self._exact) // 50 if shuffle else 0
        self._count = min(count, len(self._longer_side))

    def __len__(self) -> int:
        done, rows = self._start
        count = done + math.ceil((len(after_rows(self._plan(), rows)) if rows else self._count) / self._world_size)
        return count if self._most is None else min(count, self._most)

    def __iter__(self) -> Iterator[list[int]]:
        before = self._start[0]
        first, self._first = self._first, before
        own_batches = self._shared(self._world_size)[self._rank :: self._world_size]
        most = len(own_batches) if self._most is None else max(0, self._most - before)
        for self.done, rows in enumerate(own_batches[first - before : most], first + 1):
            yield rows.tolist()

    def _used_rows(self, batches: int, world_size: int) -> int:
        return row_count(self._shared(world_size)[:batches])

    def _shared(self, world_size: int) -> list[np.ndarray]:
        """Return the batches of all ranks from ``_start`` on, as ``shared_batches`` does."""
        return shared_batches(after_rows(self._plan(), self._start[1]), self._longer_side, world_size)

    def _plan(self) -> list[np.ndarray]:
        """Return the batches of this epoch for all ranks, in order. Every rank computes the same plan."""
        if self._cached_plan is None or self._cached_plan[0] != self._epoch:
            batches = list(self._exact)
            if self._shuffle:
                plans = (self._noisy(self._epoch, attempt) for attempt in range(REDRAWS))
                batches = next((plan for plan in plans if len(plan) <= self._count), batches)
            if len(batches) < self._count:  # the largest first, as in the runs of earlier versions
                batches = sorted(batches, key=lambda rows: -batch_cost(rows, self._longer_side))
                batches = split_up(batches, self._longer_side, self._count)
            if self._shuffle:
                np.random.default_rng([self._seed, self._epoch]).shuffle(batches)
            self._cached_plan = (self._epoch, batches)
        return self._cached_plan[1]

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
