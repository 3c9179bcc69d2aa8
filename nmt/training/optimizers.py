"""Optimizer and learning-rate schedule of a run: torch's classes, ours, or those of a trusted package."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from inspect import signature
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from nmt.settings.plugins import Block, PluginPoint, construct, locate
from nmt.training.schedules import Plateau

OPTIMIZER = PluginPoint(Optimizer, ("torch.optim",), frozenset({"params"}))
SCHEDULE = PluginPoint(
    LRScheduler,
    ("torch.optim.lr_scheduler", "nmt.training.schedules"),
    supplied=frozenset({"optimizer"}),
    defaults=frozenset({"total_steps", "mode"}),
)
# Exceptions that torch raises for wrong settings.
REFUSALS = (ValueError, TypeError, IndexError, ArithmeticError, RuntimeError, AssertionError)


def build_optimizer(block: Block, parameters: Sequence[Tensor], *, trust: Sequence[str] = ()) -> Optimizer:
    """Return the optimizer that the block describes."""
    # torch refuses betas such as (0.9, 0).
    block = {
        key: tuple(float(number) for number in value) if isinstance(value, list) else value
        for key, value in block.items()
    }
    optimizer: Optimizer = construct(block, OPTIMIZER, trust=trust, params=parameters)
    return optimizer


def build_schedule(
    block: Block, optimizer: Optimizer, *, total_steps: Callable[[], int], monitor: str, trust: Sequence[str] = ()
) -> LRScheduler:
    """Return the schedule that the block describes.

    A class that takes ``total_steps`` gets the number of updates of the run. A plateau schedule, except ours, gets
    ``mode``: ``min`` if a smaller value of ``monitor`` is better, else ``max``. The block may override both.
    """
    supplied: dict[str, Any] = {"optimizer": optimizer}
    target = locate(block["_target_"], SCHEDULE, trust=trust)
    if _needs_total_steps(block, trust):
        supplied["total_steps"] = total_steps()
    plateau = isinstance(target, type) and issubclass(target, ReduceLROnPlateau)  # CyclicLR's mode is not min or max
    if plateau and not issubclass(target, Plateau):  # type: ignore[arg-type]
        supplied["mode"] = "min" if monitor == "valid_loss" else "max"
    schedule: LRScheduler = construct(block, SCHEDULE, trust=trust, **supplied)
    return schedule


def optimizer_problems(
    optimizer: Block,
    schedule: Block,
    *,
    interval: str,
    endless: bool,
    monitor: str,
    device: str,
    trust: Sequence[str] = (),
) -> Iterator[str]:
    """Yield the reasons for which optimizer or schedule cannot be constructed, or cannot update a single weight.

    ``endless``: neither the number of epochs nor that of updates is limited.
    """
    if endless and _needs_total_steps(schedule, trust):
        name = schedule["_target_"].rpartition(".")[2]
        yield f"training.max_epochs=null: {name} needs the number of updates; set training.max_steps or max_epochs"
        return
    if interval == "epoch" and _counts_updates(schedule, trust):
        yield f"schedule.interval=epoch: {schedule['_target_']} counts updates; remove schedule.interval"
        return
    part, refused = "optimizer", optimizer
    weight = torch.nn.Parameter(
        torch.zeros(1, device="cuda" if device != "cpu" and torch.cuda.is_available() else "cpu")
    )
    weight.grad = torch.zeros_like(weight)
    try:
        built = build_optimizer(optimizer, [weight], trust=trust)
        built.step(lambda: 0.0)
        part, refused = "schedule", schedule
        steps = build_schedule(schedule, built, total_steps=lambda: 1000, monitor=monitor, trust=trust)
        built.step(lambda: 0.0)  # torch warns about a schedule that steps first
        step_schedule(steps, 0.0)
    except REFUSALS as error:
        yield f"{part}: {refused['_target_']} refuses its settings: {error}"


def _needs_total_steps(block: Block, trust: Sequence[str]) -> bool:
    target = locate(block["_target_"], SCHEDULE, trust=trust)
    return "total_steps" not in block and "total_steps" in signature(target).parameters


def _counts_updates(block: Block, trust: Sequence[str]) -> bool:
    target = locate(block["_target_"], SCHEDULE, trust=trust)
    plateau = isinstance(target, type) and issubclass(target, ReduceLROnPlateau)
    return ("warmup_steps" in signature(target).parameters and not plateau) or _needs_total_steps(block, trust)


def step_schedule(schedule: LRScheduler, metric: Any) -> None:
    """Step the schedule; one that counts validations gets the ``metric``."""
    if isinstance(schedule, ReduceLROnPlateau):
        schedule.step(metric)
    else:
        schedule.step()
