"""Divide the batches of an epoch among processes, without a change of their order."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

Batches = list[np.ndarray]


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
