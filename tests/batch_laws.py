"""Laws of a plan of batches, for each kind of corpus."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nmt.text.batches import EpochBatches, Plan


def check_epoch(
    plan: Plan,
    world_size: int,
    epoch: int,
    longer: np.ndarray,
    *,
    max_tokens: int,
    max_sentences: int | None = None,
    **_: Any,
) -> None:
    """Check that the ranks read equally many batches, within the budget, and every row once.

    Once all batches have one row, some are read twice.
    """
    shares = [list(EpochBatches(plan, epoch, rank=rank, world_size=world_size)) for rank in range(world_size)]
    assert {len(share) for share in shares} == {len(EpochBatches(plan, world_size=world_size))}
    batches = [batch for share in shares for batch in share]
    rows = [row for batch in batches for row in batch]
    if world_size == 1 or len(batches) <= len(longer):
        assert sorted(rows) == list(range(len(longer)))
    else:
        assert set(rows) == set(range(len(longer))) and len(batches) < len(longer) + world_size
    for batch in batches:
        assert 1 <= len(batch) <= (max_sentences or len(longer))
        assert len(batch) == 1 or len(batch) * longer[batch].max() <= max_tokens


def check_epochs(plan: Callable[[int], Plan]) -> None:
    """Check that (seed, epoch) decides the batches, and that another epoch groups sentences differently."""

    def epoch(seed: int, number: int) -> list[list[int]]:
        batches = EpochBatches(plan(seed), number)
        assert list(batches) == list(batches)
        return list(batches)

    assert epoch(1, 3) == epoch(1, 3)
    assert epoch(1, 3) != epoch(1, 4)
    assert epoch(1, 3) != epoch(2, 3)
    first, second = ({frozenset(rows) for rows in epoch(1, number)} for number in (0, 1))
    assert len(first & second) < 0.1 * len(first)


def check_continued(plan: Plan, **ranks: int) -> None:
    """Check that an epoch can skip its first batches, start again after some, and end early."""
    expected = list(EpochBatches(plan, 2, **ranks))
    for skip in {0, 1, len(expected) // 2, len(expected) - 1, len(expected)}:
        rest = EpochBatches(plan, 2, **ranks, skip=skip)
        assert list(rest) == expected[skip:] and len(rest) == len(expected)
        again = EpochBatches(plan, 2, **ranks, before=5, skip=skip)
        assert list(again) == expected[skip:] and len(again) == len(expected) + 5
        limited = EpochBatches(plan, 2, **ranks, before=1, skip=skip, limit=4)
        assert list(limited) == expected[skip:3] and len(limited) == 4
    assert list(EpochBatches(plan, 2, **ranks, limit=0)) == expected[:1]
