"""Optimizer and learning-rate schedule of a run: torch's classes, ours, or those of a trusted package."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from inspect import signature
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from nmt.plugins import PluginPoint, construct, locate

OPTIMIZER = PluginPoint(Optimizer, ("torch.optim",), frozenset({"params"}))
SCHEDULE = PluginPoint(
    LRScheduler,
    ("torch.optim.lr_scheduler", "nmt.training.schedules"),
    supplied=frozenset({"optimizer"}),
    defaults=frozenset({"total_steps", "mode"}),
)


def build_optimizer(config: Mapping[str, Any], parameters: Sequence[Tensor], *, trust: Sequence[str] = ()) -> Optimizer:
    """Return the optimizer that ``config['optimizer']`` describes."""
    block = {key: tuple(value) if isinstance(value, list) else value for key, value in config["optimizer"].items()}
    optimizer: Optimizer = construct(block, OPTIMIZER, trust=trust, params=parameters)
    return optimizer


def build_schedule(
    config: Mapping[str, Any], optimizer: Optimizer, *, total_steps: Callable[[], int], trust: Sequence[str] = ()
) -> LRScheduler:
    """Return the schedule that ``config['schedule']`` describes.

    A class that takes ``total_steps`` gets the number of updates of the run. A plateau schedule gets ``mode``: ``min``
    if a smaller ``training.monitor`` is better, else ``max``. The block may override both.
    """
    block = {key: value for key, value in config["schedule"].items() if key != "interval"}
    supplied: dict[str, Any] = {"optimizer": optimizer}
    target = locate(block["_target_"], SCHEDULE, trust=trust)
    if "total_steps" in signature(target).parameters:
        supplied["total_steps"] = total_steps()
    if isinstance(target, type) and issubclass(target, ReduceLROnPlateau):  # CyclicLR's mode is something else
        supplied["mode"] = "min" if config["training"]["monitor"] == "valid_loss" else "max"
    schedule: LRScheduler = construct(block, SCHEDULE, trust=trust, **supplied)
    return schedule


def optimizer_problems(config: Mapping[str, Any], *, trust: Sequence[str] = ()) -> Iterator[str]:
    """Yield what the constructors of optimizer and schedule refuse, tried on a single weight."""
    part = "optimizer"
    try:
        optimizer = build_optimizer(config, [torch.nn.Parameter(torch.zeros(1))], trust=trust)
        part = "schedule"
        build_schedule(config, optimizer, total_steps=lambda: 1000, trust=trust)
    except (ValueError, TypeError, IndexError, ArithmeticError, RuntimeError) as error:
        yield f"{part}: {config[part]['_target_']} refuses its settings: {error}"
