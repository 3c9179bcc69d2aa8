"""Batches that fill a token budget with sentences of like length on both sides, and their tensors."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Annotated, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Sampler

from nmt.bounds import AtLeast
from nmt.text.corpus import Corpus
from nmt.text.specials import BOS, EOS, PAD

NOISE = 0.02  # how far, as a share of its length, a sentence may stray from its bucket in a shuffled epoch
FILL = 0.9  # how full a batch is planned to be: planning for 1 would overshoot half of the time, and split
REDRAWS = 4


class Batch(NamedTuple):
    """B sentence pairs, padded; masks are True at real positions. ``</s>`` is real."""

    source: Tensor  # (B, S) int64: x </s>
    source_mask: Tensor  # (B, S) bool
    target_in: Tensor  # (B, T) int64: <s> y
    target_out: Tensor  # (B, T) int64: y </s>
    target_mask: Tensor  # (B, T) bool
    index: Tensor  # type: ignore[assignment]  # (B,) int64: the corpus rows; hides tuple.index


def collate(corpus: Corpus, rows: Sequence[int]) -> Batch:
    """The batch of these corpus rows, in this order."""
    pairs = [corpus.ids(row) for row in rows]
    source, source_mask = _pad([x for x, _ in pairs])
    target_out, target_mask = _pad([y for _, y in pairs])
    target_in = np.full_like(target_out, PAD)
    target_in[:, 0] = BOS
    # y shifted by one: what is read at step t is what was to be written at t − 1. The mask drops </s>.
    target_in[:, 1:] = np.where(target_mask[:, 1:], target_out[:, :-1], PAD)
    arrays = (source, source_mask, target_in, target_out, target_mask, np.asarray(rows, dtype=np.int64))
    return Batch(*(torch.from_numpy(array) for array in arrays))


def _pad(sequences: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """(ids (B, L) int64 each ending in EOS then PAD, mask (B, L) bool)."""
    lengths = np.array([len(ids) for ids in sequences])
    mask = np.arange(lengths.max() + 1) <= lengths[:, None]
    padded = np.full(mask.shape, PAD, dtype=np.int64)
    for row, ids in zip(padded, sequences, strict=True):
        row[: len(ids)] = ids
        row[len(ids)] = EOS
    return padded, mask


class TokenBatches(Sampler[list[int]]):
    """Lists of rows for one epoch: every row, no list above the budget, little padding on either side.

    ``max_tokens`` bounds rows × the longest sentence of either side, ``</s>`` counted; a sentence that is
    longer alone is a batch of its own. Buckets come from halving the corpus again and again, each time
    along the side (source or target length) that leaves less padding. Shuffled, lengths stray a little
    and the batches come in random order, anew for each (seed, epoch), always in the same number. Of
    ``world_size`` ranks each gets equally many batches (where there are fewer rows than ranks, some repeat).
    """

    def __init__(
        self,
        source_lengths: np.ndarray,
        target_lengths: np.ndarray,
        *,
        max_tokens: Annotated[int, AtLeast(1)],
        max_sentences: Annotated[int, AtLeast(1)] | None = None,
        shuffle: bool = True,
        seed: Annotated[int, AtLeast(0)] = 1,
        rank: Annotated[int, AtLeast(0)] = 0,
        world_size: Annotated[int, AtLeast(1)] = 1,
    ) -> None:
        self._source = np.asarray(source_lengths, dtype=np.float64) + 1  # </s>
        self._target = np.asarray(target_lengths, dtype=np.float64) + 1
        self._side = np.maximum(self._source, self._target)
        self._max_tokens = max_tokens
        self._max_sentences = max_sentences or len(self._side)
        self._shuffle, self._seed = shuffle, seed
        self._rank, self._world_size = rank, world_size
        self._epoch = self._first = self.done = 0
        self._planned: tuple[int, list[np.ndarray]] | None = None
        self._calm = self._buckets(np.arange(len(self._side)), self._source, self._target)
        # The number of batches is fixed here: some slack above what one noisy plan takes, so that a later
        # epoch's plan, which may take a few more or less, can be split up to exactly this number.
        most = max(len(self._calm), len(self._noisy(0, 0))) if shuffle else len(self._calm)
        most += len(self._calm) // 50 if shuffle else 0
        self._count = math.ceil(most / world_size) * world_size

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch, from 0, that the next iteration goes through."""
        self._epoch = epoch

    def resume(self, done: int) -> None:
        """Let the next iteration leave out so many batches, which this epoch has had: as ``done`` counts them."""
        self._first = done

    def __len__(self) -> int:
        return self._count // self._world_size

    def __iter__(self) -> Iterator[list[int]]:
        first, self._first = self._first, 0
        mine = self._plan()[self._rank :: self._world_size]
        for self.done, rows in enumerate(mine[first:], first + 1):
            yield rows.tolist()

    def _plan(self) -> list[np.ndarray]:
        """The batches of this epoch for all ranks, in order; the same on every rank."""
        if self._planned is None or self._planned[0] != self._epoch:
            batches = list(self._calm)
            if self._shuffle:
                drawn = (self._noisy(self._epoch, attempt) for attempt in range(REDRAWS))
                batches = next((plan for plan in drawn if len(plan) <= self._count), batches)
            batches = _split_up(batches, self._side, self._count)
            if self._shuffle:
                np.random.default_rng([self._seed, self._epoch]).shuffle(batches)
            self._planned = (self._epoch, batches)
        return self._planned[1]

    def _noisy(self, epoch: int, attempt: int) -> list[np.ndarray]:
        random = np.random.default_rng([self._seed, epoch, attempt])
        source, target = (
            lengths * random.uniform(1 - NOISE, 1 + NOISE, len(lengths)) for lengths in (self._source, self._target)
        )
        return self._buckets(random.permutation(len(source)), source, target)

    def _buckets(self, rows: np.ndarray, source: np.ndarray, target: np.ndarray) -> list[np.ndarray]:
        """Halve the rows until every part fits the budget, sorting by the keys ``source`` or ``target``."""
        side = self._side[rows]
        few, small = len(rows) <= self._max_sentences, len(rows) * side.max() <= self._max_tokens
        if len(rows) == 1 or (few and small):
            return [rows]
        need = max(2, math.ceil(max(side.sum() / (FILL * self._max_tokens), len(rows) / self._max_sentences)))
        share = (need // 2) / need  # so that whole batches fit into both halves
        halves = [self._halve(rows[np.argsort(key[rows], kind="stable")], share) for key in (source, target)]
        lower, upper = min(halves, key=self._padded)
        return self._buckets(lower, source, target) + self._buckets(upper, source, target)

    def _halve(self, rows: np.ndarray, share: float) -> tuple[np.ndarray, np.ndarray]:
        tokens = np.cumsum(self._side[rows])
        cut = int(np.clip(np.searchsorted(tokens, tokens[-1] * share), 1, len(rows) - 1))
        return rows[:cut], rows[cut:]

    def _padded(self, parts: Sequence[np.ndarray]) -> float:
        return sum(len(part) * float(self._source[part].max() + self._target[part].max()) for part in parts)


def _split_up(batches: list[np.ndarray], side: np.ndarray, count: int) -> list[np.ndarray]:
    """Exactly ``count`` batches: the largest are cut in two; if all have one row, some repeat."""
    while len(batches) < count:
        batches = sorted(batches, key=lambda rows: -len(rows) * (len(rows) > 1) * float(side[rows].max()))
        few = min(count - len(batches), len(batches))
        pieces = [np.array_split(rows, 2) if len(rows) > 1 else [rows, rows] for rows in batches[:few]]
        batches = [piece for pair in pieces for piece in pair] + batches[few:]
    return batches
