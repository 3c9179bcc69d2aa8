"""Optimizers and learning-rate schedules: torch's classes, our schedules, or classes of a trusted package.

Our schedules count updates, and each warms up linearly from 0 to the optimizer's rate.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from inspect import signature
from typing import Annotated, Any

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR, LRScheduler, ReduceLROnPlateau

from nmt.settings.arguments import AtLeast, Share
from nmt.settings.plugins import Block, PluginPoint, construct, locate

OPTIMIZER = PluginPoint(Optimizer, ("torch.optim",), frozenset({"params"}), defaults=frozenset({"fused"}))
SCHEDULE = PluginPoint(
    LRScheduler,
    ("torch.optim.lr_scheduler", "nmt.training.schedules"),
    supplied=frozenset({"optimizer"}),
    defaults=frozenset({"total_steps", "mode"}),
)
WarmupSteps = Annotated[int, AtLeast(0)]
# Exceptions that torch raises for wrong settings.
REFUSALS = (ValueError, TypeError, IndexError, ArithmeticError, RuntimeError, AssertionError)


class Constant(LambdaLR):
    """Warm up over ``warmup_steps`` updates, then keep the rate."""

    def __init__(self, optimizer: Optimizer, *, warmup_steps: WarmupSteps = 200) -> None:
        peak = max(1, warmup_steps)
        super().__init__(optimizer, lambda step: min(1.0, (step + 1) / peak))


class InverseSqrt(LambdaLR):
    """Warm up, then multiply the rate by √(warmup_steps / update): Vaswani et al. 2017, eq. 3, with a peak of 1."""

    def __init__(self, optimizer: Optimizer, *, warmup_steps: WarmupSteps = 200) -> None:
        peak = max(1, warmup_steps)
        super().__init__(optimizer, lambda step: min((step + 1) / peak, (peak / (step + 1)) ** 0.5))


class Linear(LambdaLR):
    """Warm up, then fall linearly, to 0 after the last update, ``total_steps``."""

    def __init__(self, optimizer: Optimizer, *, total_steps: int, warmup_steps: WarmupSteps = 200) -> None:
        peak = max(1, warmup_steps)
        fall = max(1, total_steps - peak)
        super().__init__(optimizer, lambda step: max(0.0, min((step + 1) / peak, (total_steps - step) / fall)))


class Plateau(ReduceLROnPlateau):
    """Warm up, then multiply the rate by ``factor`` after more than ``patience`` validations without progress.

    A validation is progress if its ``valid_quality`` is larger than all before, as for ``training.patience``.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        *,
        warmup_steps: WarmupSteps = 200,
        factor: Share = 0.5,
        patience: Annotated[int, AtLeast(0)] = 1,
    ) -> None:
        super().__init__(optimizer, mode="max", threshold=0, threshold_mode="abs", factor=factor, patience=patience)
        self.warmup_steps = warmup_steps
        self.peak_rates = [group["lr"] for group in optimizer.param_groups]

    def warm_up(self, update: int) -> None:
        """Set the rate of this update, from 0, while warming up: torch's class only knows validations."""
        if update < self.warmup_steps:
            for group, peak in zip(self.optimizer.param_groups, self.peak_rates, strict=True):
                group["lr"] = peak * ((update + 1) / self.warmup_steps)


def build_optimizer(block: Block, parameters: Sequence[Tensor], *, trust: Sequence[str]) -> Optimizer:
    """Return the optimizer that the block describes."""
    # torch refuses betas such as (0.9, 0).
    settings = {
        key: tuple(float(number) for number in value) if isinstance(value, list) else value
        for key, value in block.items()
    }
    # fused: one kernel for all weights
    optimizer: Optimizer = construct(settings, OPTIMIZER, trust=trust, params=parameters, fused=True)
    return optimizer


def build_schedule(
    block: Block, optimizer: Optimizer, total_steps: int | None, *, trust: Sequence[str] = ()
) -> LRScheduler:
    """Return the schedule that the block describes.

    A class that takes ``total_steps`` gets the number of updates of the run. A plateau schedule gets ``mode=max``,
    because it watches ``valid_quality``. Its block may override both.
    """
    supplied: dict[str, Any] = {"optimizer": optimizer, "total_steps": total_steps}
    target = locate(block["_target_"], SCHEDULE, trust=trust)
    if isinstance(target, type) and issubclass(target, ReduceLROnPlateau):
        supplied["mode"] = "max"  # CyclicLR's mode is not min or max
    schedule: LRScheduler = construct(block, SCHEDULE, trust=trust, **supplied)
    return schedule


def optimizer_problems(optimizer: Block, schedule: Block, *, is_endless: bool, trust: Sequence[str]) -> Iterator[str]:
    """Yield the reasons for which optimizer or schedule cannot be constructed. An ``is_endless`` run has no limit."""
    target = schedule["_target_"]
    if is_endless and "total_steps" in signature(locate(target, SCHEDULE, trust=trust)).parameters.keys() - schedule:
        fix = "set training.max_steps or max_epochs"
        yield f"training.max_epochs=null: {target} needs the number of updates; {fix}"
        return
    part = f"optimizer: {optimizer['_target_']}"
    try:
        built = build_optimizer(optimizer, [torch.nn.Parameter(torch.zeros(1))], trust=trust)
        part = f"schedule: {target}"
        build_schedule(schedule, built, 1000, trust=trust)
    except REFUSALS as error:
        yield f"{part} refuses its settings: {error}"
