"""The plug-in points of optimizer and schedule, and our learning-rate schedules.

Our schedules count updates, and each warms up linearly from 0 to the optimizer's rate.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR, LRScheduler, ReduceLROnPlateau

from nmt.settings.arguments import AtLeast, Within
from nmt.settings.plugins import PluginPoint

OPTIMIZER = PluginPoint(Optimizer, ("torch.optim",), frozenset({"params"}))
SCHEDULE = PluginPoint(
    LRScheduler,
    ("torch.optim.lr_scheduler", "nmt.training.schedules"),
    supplied=frozenset({"optimizer"}),
    defaults=frozenset({"total_steps", "mode"}),
)
WarmupSteps = Annotated[int, AtLeast(0)]


class Constant(LambdaLR):
    """Warm up over ``warmup_steps`` updates, then keep the rate."""

    def __init__(self, optimizer: Optimizer, *, warmup_steps: WarmupSteps = 200) -> None:
        super().__init__(optimizer, warm_up(warmup_steps))


class InverseSqrt(LambdaLR):
    """Warm up, then multiply the rate by √(warmup_steps / update): Vaswani et al. 2017, eq. 3, with a peak of 1."""

    def __init__(self, optimizer: Optimizer, *, warmup_steps: WarmupSteps = 200) -> None:
        super().__init__(optimizer, inverse_sqrt(warmup_steps))


class Linear(LambdaLR):
    """Warm up, then fall linearly, to 0 after the last update, ``total_steps``."""

    def __init__(self, optimizer: Optimizer, *, total_steps: int, warmup_steps: WarmupSteps = 200) -> None:
        super().__init__(optimizer, linear(warmup_steps, total_steps))


class Plateau(ReduceLROnPlateau):
    """Warm up, then multiply the rate by ``factor`` after more than ``patience`` validations without progress.

    A validation is progress if its ``valid_quality`` is larger than all before, as for ``training.patience``.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        *,
        warmup_steps: WarmupSteps = 200,
        factor: Annotated[float, Within(0, 1)] = 0.5,
        patience: Annotated[int, AtLeast(0)] = 1,
    ) -> None:
        super().__init__(optimizer, mode="max", threshold=0, threshold_mode="abs", factor=factor, patience=patience)
        self.warmup_steps = warmup_steps
        self.peak_rates = [group["lr"] for group in optimizer.param_groups]

    def warm_up(self, update: int) -> None:
        """Set the rate of this update, from 0, while warming up: torch's class only knows validations."""
        if update < self.warmup_steps:
            for group, peak in zip(self.optimizer.param_groups, self.peak_rates, strict=True):
                group["lr"] = peak * warm_up(self.warmup_steps)(update)


def warm_up(warmup_steps: int) -> Callable[[int], float]:
    """Return the factor of the rate at each update: linear from 0 to 1 over ``warmup_steps`` updates, then 1."""
    return lambda step: min(1.0, (step + 1) / max(1, warmup_steps))


def inverse_sqrt(warmup_steps: int) -> Callable[[int], float]:
    """Return the factor of the rate at each update for ``InverseSqrt``."""
    peak = max(1, warmup_steps)
    return lambda step: min((step + 1) / peak, (peak / (step + 1)) ** 0.5)


def linear(warmup_steps: int, total_steps: int) -> Callable[[int], float]:
    """Return the factor of the rate at each update for ``Linear``."""
    peak = max(1, warmup_steps)
    fall = max(1, total_steps - peak)
    return lambda step: max(0.0, min((step + 1) / peak, (total_steps - step) / fall))
