"""Token-budget batches: sentences of similar length on both sides are grouped, then padded into tensors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from nmt.errors import UserError, counted
from nmt.text.corpus import Corpus
from nmt.text.prepare import Prepared
from nmt.text.specials import BOS, EOS, PAD
from nmt.text.tokenizer import Tokenizer

POOL = 1_000_000  # rows that are grouped by length together
BLOCK = 10_000  # consecutive rows that are read together: an epoch shuffles the blocks of a large corpus
GROWTH = 1.05  # lengths of one class differ by at most this factor, or by less than one token
NOISE = 1.0  # tokens: pairs are grouped differently in each epoch
DROPOUT_GROWTH = (
    10  # a dropout of 0.1 makes sentences of the generated corpus 1.6 times as long, one in ten twice as long
)

Ids = tuple[np.ndarray, np.ndarray]


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
    pairs = corpus.batch(rows)
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


class BatchPlan:
    """The batches of one rank in any pass over a corpus, within the token budget and with little padding.

    Every row occurs once in a pass, except for up to ``world_size`` − 1 batches of each pool that training leaves out
    so that all ranks have equally many. ``max_tokens`` bounds rows × the longest sentence of either side, counting
    ``</s>``; a longer sentence forms a batch alone. Sentences are expected to be ``growth`` times as long as given.

    Pools of up to ``POOL`` rows are planned one after the other. The rows of a pool are divided into classes by the
    length of their longer side, sorted inside a class by the difference of the two sides, and cut. What is left of a
    class moves to the next longer one, so the number of batches follows from the sizes of the classes.
    With ``shuffle``, pools, differences and the order of the batches depend on (``seed``, pass).
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
        growth: float = 1.0,
    ) -> None:
        self.rows = len(source_lengths)
        if self.rows < world_size:
            raise UserError(f"data: {counted(self.rows, 'pair')} for {world_size} processes; use fewer processes")
        self._shuffle, self._seed, self._rank, self._world_size = shuffle, seed, rank, world_size
        longer = np.maximum(source_lengths, target_lengths)
        sizes = np.ceil(np.arange(longer.max() + 1) * growth) + 1  # of each length, with </s>
        bounds = [1]  # the longest size of each class
        while bounds[-1] < sizes[-1]:
            bounds.append(max(bounds[-1] + 1, int(bounds[-1] * GROWTH)))
        # Few bytes per row: a corpus may have many millions.
        self._classes = np.searchsorted(bounds, sizes).astype(np.uint16)[longer]
        self._difference = np.subtract(source_lengths, target_lengths, dtype=np.int32)
        largest = min(max_sentences or self.rows, self.rows // world_size)
        self._capacities = [max(1, min(max_tokens // bound, largest)) for bound in bounds]

    def count(self, number: int) -> int:
        """Return the number of batches of this rank in the pass ``number``, counted from 0."""
        return sum(self._count(pool) for pool in self._pools(number))

    def batches(self, number: int, skip: int = 0) -> Iterator[list[int]]:
        """Yield the rows of each batch of this rank in the pass ``number``, without the first ``skip`` batches."""
        for index, pool in enumerate(self._pools(number)):
            count = self._count(pool)
            if skip < count:
                batches = self._plan(pool, np.random.default_rng([self._seed, number, index]))
                yield from (rows.tolist() for rows in batches[self._rank :: self._world_size][skip:count])
            skip = max(0, skip - count)

    def _pools(self, number: int) -> Iterator[np.ndarray]:
        """Yield the rows of each pool."""
        blocks = np.arange(0, self.rows, BLOCK)
        if self._shuffle:
            np.random.default_rng([self._seed, number]).shuffle(blocks)
        for first in range(0, len(blocks), POOL // BLOCK):
            starts = blocks[first : first + POOL // BLOCK, None]
            rows = (starts + np.arange(BLOCK)).ravel()
            yield rows[rows < self.rows]

    def _count(self, pool: np.ndarray) -> int:
        """Return the number of batches of this rank in a pool."""
        count = left = 0
        for rows, capacity in zip(self._class_sizes(pool), self._capacities, strict=True):
            full, left = divmod(rows + left, capacity)
            count += full
        count += left > 0
        return count // self._world_size if self._shuffle else len(range(self._rank, count, self._world_size))

    def _class_sizes(self, pool: np.ndarray) -> list[int]:
        sizes: list[int] = np.bincount(self._classes[pool], minlength=len(self._capacities)).tolist()
        return sizes

    def _plan(self, pool: np.ndarray, random: np.random.Generator) -> list[np.ndarray]:
        """Return the batches of all ranks in a pool."""
        classes = self._classes[pool]
        difference = self._difference[pool] * 1.0
        if self._shuffle:
            difference += random.uniform(-NOISE, NOISE, len(pool))
        # Alternating directions: what is left of a class resembles the start of the next one.
        rows = pool[np.lexsort((np.where(classes % 2, difference, -difference), classes))]
        batches = list[np.ndarray]()
        start = stop = 0
        for size, capacity in zip(self._class_sizes(pool), self._capacities, strict=True):
            stop += size
            full = (stop - start) // capacity
            batches += [rows[start + row : start + row + capacity] for row in range(0, full * capacity, capacity)]
            start += full * capacity
        batches += [rows[start:]] * (start < stop)
        if self._shuffle:
            batches = [batches[index] for index in random.permutation(len(batches))]
        return batches


class SampledPieces:
    """Piece ids of the training rows with BPE-dropout, drawn anew whenever a batch is read.

    Batches are planned with lengths ``growth`` times the usual ones. A side that grows beyond its share of
    ``max_tokens``, or a source beyond the longest one of the corpus, which an attention may not hold, keeps its usual
    pieces. So no batch exceeds ``max_tokens`` unless it is one sentence.
    """

    def __init__(self, prepared: Prepared, dropout: float, *, max_tokens: int) -> None:
        """Raises UserError for pieces of another kind than BPE."""
        if not (prepared.source.has_merges and prepared.target.has_merges):
            raise UserError(f"batches.bpe_dropout={dropout}: needs pieces of BPE, but the text has others; remove it")
        self._corpus, self._tokenizers = prepared.corpora["train"], (prepared.source, prepared.target)
        self._dropout, self._max_tokens = dropout, max_tokens
        self._longest, _ = self._corpus.longest_source()
        self.growth = 1 + DROPOUT_GROWTH * dropout

    def batch(self, rows: Sequence[int]) -> list[Ids]:
        """Return the (source, target) piece ids of these rows, without BOS and EOS."""
        share = self._max_tokens // len(rows) - 1  # </s>
        limits = (min(share, self._longest), share)
        pairs = []
        for row, usual in zip(rows, self._corpus.batch(rows), strict=True):
            sides = zip(self._tokenizers, self._corpus.texts(row), usual, limits, strict=True)
            x, y = (self._sample(*side) for side in sides)
            pairs.append((x, y))
        return pairs

    def _sample(self, tokenizer: Tokenizer, text: str, usual: np.ndarray, limit: int) -> np.ndarray:
        ids = tokenizer.sample(text, dropout=self._dropout)
        return np.array(ids, dtype=np.int32) if len(ids) <= limit else usual
