"""Optimizer and learning-rate schedule of a run: torch's classes, ours, or those of a trusted package."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from inspect import signature
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from nmt.settings.plugins import construct, locate
from nmt.training.schedules import OPTIMIZER, SCHEDULE, Plateau
from nmt.training.settings import Train

# Exceptions that torch raises for wrong settings.
REFUSALS = (ValueError, TypeError, IndexError, ArithmeticError, RuntimeError, AssertionError)


def build_optimizer(config: Train, parameters: Sequence[Tensor]) -> Optimizer:
    """Return the optimizer of the run."""
    # torch refuses betas such as (0.9, 0).
    block = {
        key: tuple(float(number) for number in value) if isinstance(value, list) else value
        for key, value in config.optimizer.items()
    }
    optimizer: Optimizer = construct(block, OPTIMIZER, trust=config.trust, params=parameters)
    return optimizer


def build_schedule(config: Train, optimizer: Optimizer, total_steps: Callable[[], int]) -> LRScheduler:
    """Return the schedule of the run.

    A class that takes ``total_steps`` gets the number of updates of the run. A plateau schedule gets ``mode=max``,
    because it watches ``valid_quality``. Its block may override both.
    """
    supplied: dict[str, Any] = {"optimizer": optimizer}
    if _needs_total_steps(config):
        supplied["total_steps"] = total_steps()
    if _counts_validations(config) and _schedule_class(config) is not Plateau:  # CyclicLR's mode is not min or max
        supplied["mode"] = "max"
    schedule: LRScheduler = construct(config.schedule.block, SCHEDULE, trust=config.trust, **supplied)
    return schedule


def optimizer_problems(config: Train) -> Iterator[str]:
    """Yield the reasons for which optimizer or schedule cannot be constructed."""
    schedule = config.schedule.block["_target_"]
    is_endless = (config.training.max_epochs, config.training.max_steps) == (None, None)
    if is_endless and _needs_total_steps(config):
        name = schedule.rpartition(".")[2]
        yield f"training.max_epochs=null: {name} needs the number of updates; set training.max_steps or max_epochs"
        return
    patience, last = config.schedule.block.get("patience"), config.training.patience
    if _counts_validations(config) and isinstance(patience, int) and last is not None and patience + 2 > last:
        why = f"training.patience={last} ends training before the rate is lowered"
        yield f"schedule.patience={patience}: {why}; set training.patience={patience + 2} or more"
    part = f"optimizer: {config.optimizer['_target_']}"
    on_gpu = config.device != "cpu" and torch.cuda.is_available()
    try:
        built = build_optimizer(config, [torch.nn.Parameter(torch.zeros(1, device="cuda" if on_gpu else "cpu"))])
        part = f"schedule: {schedule}"
        build_schedule(config, built, lambda: 1000)
    except REFUSALS as error:
        yield f"{part} refuses its settings: {error}"


def _schedule_class(config: Train) -> Any:
    return locate(config.schedule.block["_target_"], SCHEDULE, trust=config.trust)


def _needs_total_steps(config: Train) -> bool:
    return "total_steps" not in config.schedule.block and "total_steps" in signature(_schedule_class(config)).parameters


def _counts_validations(config: Train) -> bool:
    """Return whether the schedule lowers the rate after validations without progress."""
    target = _schedule_class(config)
    return isinstance(target, type) and issubclass(target, ReduceLROnPlateau)
