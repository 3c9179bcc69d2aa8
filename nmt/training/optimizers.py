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


def build_optimizer(config: Mapping[str, Any], parameters: Sequence[Tensor], *, trust: Sequence[str] = ()) -> Optimizer:
    """Return the optimizer that ``config['optimizer']`` describes."""
    block = {
        key: tuple(float(number) for number in value) if isinstance(value, list) else value  # torch refuses (0.9, 0)
        for key, value in config["optimizer"].items()
    }
    optimizer: Optimizer = construct(block, OPTIMIZER, trust=trust, params=parameters)
    return optimizer


def build_schedule(
    config: Mapping[str, Any], optimizer: Optimizer, *, total_steps: Callable[[], int], trust: Sequence[str] = ()
) -> LRScheduler:
    """Return the schedule that ``config['schedule']`` describes.

    A class that takes ``total_steps`` gets the number of updates of the run. A plateau schedule, except ours, gets
    ``mode``: ``min`` if a smaller ``training.monitor`` is better, else ``max``. The block may override both.
    """
    block = {key: value for key, value in config["schedule"].items() if key != "interval"}
    supplied: dict[str, Any] = {"optimizer": optimizer}
    target = locate(block["_target_"], SCHEDULE, trust=trust)
    if "total_steps" not in block and _takes_total_steps(config, trust):
        supplied["total_steps"] = total_steps()
    plateau = isinstance(target, type) and issubclass(target, ReduceLROnPlateau)  # CyclicLR's mode is something else
    if plateau and not issubclass(target, Plateau):  # type: ignore[arg-type]
        supplied["mode"] = "min" if config["training"]["monitor"] == "valid_loss" else "max"
    schedule: LRScheduler = construct(block, SCHEDULE, trust=trust, **supplied)
    return schedule


def optimizer_problems(config: Mapping[str, Any], *, trust: Sequence[str] = ()) -> Iterator[str]:
    """Yield why optimizer or schedule cannot be constructed, or cannot make one update of a single weight."""
    limits = [config["training"][key] for key in ("max_epochs", "max_steps")]
    if limits == [None, None] and "total_steps" not in config["schedule"] and _takes_total_steps(config, trust):
        name = config["schedule"]["_target_"].rpartition(".")[2]
        yield f"training.max_epochs=null: {name} needs the number of updates; set training.max_steps or max_epochs"
        return
    if config["schedule"].get("interval") == "epoch" and _counts_updates(config, trust):
        yield f"schedule.interval=epoch: {config['schedule']['_target_']} counts updates; remove it"
        return
    part = "optimizer"
    device = "cuda" if config["device"] != "cpu" and torch.cuda.is_available() else "cpu"
    weight = torch.nn.Parameter(torch.zeros(1, device=device))
    weight.grad = torch.zeros_like(weight)
    try:
        optimizer = build_optimizer(config, [weight], trust=trust)
        optimizer.step(lambda: 0.0)
        part = "schedule"
        schedule = build_schedule(config, optimizer, total_steps=lambda: 1000, trust=trust)
        optimizer.step(lambda: 0.0)  # torch warns about a schedule that steps first
        step_schedule(schedule, 0.0)
    except REFUSALS as error:
        yield f"{part}: {config[part]['_target_']} refuses its settings: {error}"


def _takes_total_steps(config: Mapping[str, Any], trust: Sequence[str]) -> bool:
    target = locate(config["schedule"]["_target_"], SCHEDULE, trust=trust)
    return "total_steps" in signature(target).parameters


def _counts_updates(config: Mapping[str, Any], trust: Sequence[str]) -> bool:
    target = locate(config["schedule"]["_target_"], SCHEDULE, trust=trust)
    plateau = isinstance(target, type) and issubclass(target, ReduceLROnPlateau)
    if "warmup_steps" in signature(target).parameters and not plateau:
        return True
    return "total_steps" not in config["schedule"] and _takes_total_steps(config, trust)


def step_schedule(schedule: LRScheduler, metric: Any) -> None:
    """Step the schedule; one that counts validations gets the ``metric``."""
    if isinstance(schedule, ReduceLROnPlateau):
        schedule.step(metric)
    else:
        schedule.step()
