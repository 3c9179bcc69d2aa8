"""Divide the batches of an epoch among processes, keep their order, and resume within an epoch."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from torch.utils.data import Sampler

Batches = list[np.ndarray]


class EpochBatches(Sampler[list[int]]):
    """Base class of samplers that yield batches, as lists of corpus rows, and can resume within an epoch."""

    def __init__(self, *, shuffle: bool, seed: int, rank: int, world_size: int) -> None:
        self._shuffle, self._seed = shuffle, seed
        self._rank, self._world_size = rank, world_size
        self._epoch = self._first = self.done = 0
        self._start = (0, 0)  # batches of this rank, and rows, that other numbers of processes used in this epoch
        self._most: int | None = None

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of batches of this rank in an epoch."""

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch, counted from 0, of the next iteration."""
        self._epoch, self._start, self.done = epoch, (0, 0), 0

    def state(self) -> dict[str, Any]:
        """Return the arguments of ``resume`` with which an equal sampler continues after the batches yielded so far."""
        return {"done": self.done, "world_size": self._world_size, "start": list(self._start)}

    def resume(self, done: int, *, world_size: int | None = None, start: Sequence[int] = (0, 0)) -> None:
        """Let the next iteration skip the first ``done`` batches of its epoch. The attribute ``done`` counts them.

        The batches were yielded with this ``world_size``, by default the present one. With another one, the remaining
        rows of the epoch are shared among the present ranks.
        """
        self._first, self.done, self._start = done, done, (start[0], start[1])
        if world_size not in (None, self._world_size):
            self._start = (done, start[1] + self._used_rows((done - start[0]) * world_size, world_size))

    def limit(self, most: int) -> None:
        """End the epoch after its first ``most`` batches, at least one."""
        self._most = max(1, most)

    @abstractmethod
    def _used_rows(self, batches: int, world_size: int) -> int:
        """Return the number of rows in the next batches of ``world_size`` ranks."""


def shared_batches(batches: Sequence[np.ndarray], lengths: np.ndarray, world_size: int) -> Batches:
    """Return the batches, some of them halved, so that their number is a multiple of ``world_size``.

    The process ``rank`` takes every ``world_size``-th batch, from number ``rank`` on. ``lengths`` are those of the
    longer side of each row. All processes take equally many batches and each row once. Where every batch has one row,
    some rows repeat.
    """
    return split_up(list(batches), lengths, math.ceil(len(batches) / world_size) * world_size)


def split_up(batches: Batches, lengths: np.ndarray, count: int) -> Batches:
    """Return ``count`` batches: the largest are halved in place; once all have one row, some are repeated."""
    while batches and len(batches) < count:
        costs = [batch_cost(rows, lengths) for rows in batches]
        divisible = sum(cost > 0 for cost in costs) or len(batches)
        missing = min(divisible, count - len(batches))
        largest = set(np.argsort([-cost for cost in costs], kind="stable")[:missing].tolist())
        halves = [_halves(rows) if index in largest else [rows] for index, rows in enumerate(batches)]
        batches = [half for pair in halves for half in pair]
    return batches


def batch_cost(rows: np.ndarray, lengths: np.ndarray) -> float:
    """Return the padded size of a batch that can be halved, or 0."""
    return len(rows) * (len(rows) > 1) * float(lengths[rows].max())


def _halves(rows: np.ndarray) -> Batches:
    return np.array_split(rows, 2) if len(rows) > 1 else [rows, rows]


def row_count(batches: Sequence[np.ndarray]) -> int:
    """Return the number of different rows in the batches."""
    return len(np.unique(np.concatenate(batches))) if batches else 0


def after_rows(batches: Sequence[np.ndarray], count: int) -> Batches:
    """Return the batches without their first ``count`` rows."""
    ends = np.cumsum([len(rows) for rows in batches])
    return [rows[max(0, len(rows) - (end - count)) :] for rows, end in zip(batches, ends, strict=True) if end > count]
