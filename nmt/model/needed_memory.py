"""Refuse a model that does not fit in memory, before any of it is allocated."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

from nmt.settings.build import ModelSettings, plain
from nmt.settings.plugins import Block
from nmt.system.machine import available_memory

BYTES_PER_NUMBER = 4  # float32
GIGABYTE = 10**9


def memory_problem(parts: Mapping[str, nn.Module], settings: ModelSettings, copies: int) -> str | None:
    """Return one line if RAM cannot hold ``copies`` numbers for each weight of these parts, or None.

    The parts may be on the meta device, where they take no RAM. Each has the name of its group in ``settings``.
    Training needs more than weights, gradients and the optimizer's averages, but never less.
    """
    counts = dict.fromkeys(parts, 0)
    counted = set()
    for name, part in parts.items():
        for weight in part.parameters():
            if weight not in counted:
                counted.add(weight)
                counts[name] += weight.numel()
    total = sum(counts.values())
    available = available_memory()
    needed = total * BYTES_PER_NUMBER * copies
    if available is None or needed <= available:
        return None
    largest = max(counts, key=lambda name: counts[name])
    sizes = {key: value for key, value in plain(getattr(settings, largest)).items() if type(value) is int}
    key = max(sizes, key=lambda key: sizes[key], default=None)
    place = largest if key is None else f"{largest}.{key}={sizes[key]}"
    return (
        f"{place}: training a model of {total:,} parameters needs {needed / GIGABYTE:,.0f} GB of memory, but "
        f"{available / GIGABYTE:,.1f} GB are free; lower the sizes of the model, its layers or its vocabulary"
    )


def numbers_per_weight(optimizer: Block, device: str, *, frozen: bool) -> int:
    """Return the float32 values in RAM for each weight: weight, gradient and moments; on a GPU, only the new weight.

    An adapter leaves the weights ``frozen``: they have no gradients and no moments.
    """
    if frozen or (device != "cpu" and torch.cuda.is_available()):
        return 1
    return 4 if "betas" in optimizer else 2  # Adam and its relatives have two moments
