"""Optimizer and learning-rate schedule of a run: torch's classes, ours, or those of a trusted package."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from inspect import signature
from typing import Any, TypeGuard

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

    A class that takes ``total_steps`` gets the number of updates of the run. A plateau schedule, except ours, gets
    ``mode``: ``min`` if a smaller value of ``training.monitor`` is better, else ``max``. Its block may override both.
    """
    block = config.schedule.block
    supplied: dict[str, Any] = {"optimizer": optimizer}
    target = locate(block["_target_"], SCHEDULE, trust=config.trust)
    if _needs_total_steps(config):
        supplied["total_steps"] = total_steps()
    if _is_plateau(target) and not issubclass(target, Plateau):  # CyclicLR's mode is not min or max
        supplied["mode"] = "min" if config.training.monitor == "valid_loss" else "max"
    schedule: LRScheduler = construct(block, SCHEDULE, trust=config.trust, **supplied)
    return schedule


def optimizer_problems(config: Train) -> Iterator[str]:
    """Yield the reasons for which optimizer or schedule cannot be constructed, or cannot update a single weight."""
    schedule = config.schedule.block["_target_"]
    is_endless = (config.training.max_epochs, config.training.max_steps) == (None, None)
    if is_endless and _needs_total_steps(config):
        name = schedule.rpartition(".")[2]
        yield f"training.max_epochs=null: {name} needs the number of updates; set training.max_steps or max_epochs"
        return
    if config.schedule.interval == "epoch" and _counts_updates(config):
        yield f"schedule.interval=epoch: {schedule} counts updates; remove schedule.interval"
        return
    patience = config.schedule.block.get("patience")
    last = config.training.patience
    target = locate(schedule, SCHEDULE, trust=config.trust)
    if _is_plateau(target) and isinstance(patience, int) and last is not None and patience + 2 > last:
        why = f"training.patience={last} ends training before the rate is lowered"
        yield f"schedule.patience={patience}: {why}; set training.patience={patience + 2} or more"
    part = f"optimizer: {config.optimizer['_target_']}"
    on_gpu = config.device != "cpu" and torch.cuda.is_available()
    weight = torch.nn.Parameter(torch.zeros(1, device="cuda" if on_gpu else "cpu"))
    weight.grad = torch.zeros_like(weight)
    try:
        built = build_optimizer(config, [weight])
        built.step(lambda: 0.0)
        part = f"schedule: {schedule}"
        steps = build_schedule(config, built, lambda: 1000)
        built.step(lambda: 0.0)  # torch warns about a schedule that steps first
        step_schedule(steps, 0.0)
    except REFUSALS as error:
        yield f"{part} refuses its settings: {error}"


def _needs_total_steps(config: Train) -> bool:
    block = config.schedule.block
    target = locate(block["_target_"], SCHEDULE, trust=config.trust)
    return "total_steps" not in block and "total_steps" in signature(target).parameters


def _counts_updates(config: Train) -> bool:
    target = locate(config.schedule.block["_target_"], SCHEDULE, trust=config.trust)
    warms_up = "warmup_steps" in signature(target).parameters
    return (warms_up and not _is_plateau(target)) or _needs_total_steps(config)


def _is_plateau(target: Callable[..., Any]) -> TypeGuard[type[ReduceLROnPlateau]]:
    """Whether the schedule ``target`` lowers the rate after validations without progress."""
    return isinstance(target, type) and issubclass(target, ReduceLROnPlateau)


def step_schedule(schedule: LRScheduler, metric: Any) -> None:
    """Step the schedule; one that counts validations gets the ``metric``."""
    if isinstance(schedule, ReduceLROnPlateau):
        schedule.step(metric)
    else:
        schedule.step()
