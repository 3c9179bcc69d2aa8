"""Learning-rate schedules as factors of the base rate."""

from __future__ import annotations

from collections.abc import Callable


def warm_up(warmup_steps: int) -> Callable[[int], float]:
    """Linear from 0 to 1 over ``warmup_steps`` updates, then constant."""
    return lambda step: min(1.0, (step + 1) / max(1, warmup_steps))


def inverse_sqrt(warmup_steps: int) -> Callable[[int], float]:
    """Linear warm-up, then √(warmup/step): the shape of Vaswani et al. 2017, eq. 3, with a peak of 1."""
    peak = max(1, warmup_steps)
    return lambda step: min((step + 1) / peak, (peak / (step + 1)) ** 0.5)


def linear(warmup_steps: int, total_steps: int) -> Callable[[int], float]:
    """Linear warm-up, then linear from 1 to 0 at ``total_steps``: every run of equal length anneals alike."""
    peak = max(1, warmup_steps)
    fall = max(1, total_steps - peak)
    return lambda step: max(0.0, min((step + 1) / peak, (total_steps - step) / fall))
