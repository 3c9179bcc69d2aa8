"""Refuse a model that does not fit in memory, before any of it is allocated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from nmt.machine import available_memory

BYTES_PER_NUMBER = 4  # float32
GIGABYTE = 10**9


def memory_problem(parts: Mapping[str, nn.Module], config: Mapping[str, Any]) -> str | None:
    """Return one line if the model of these parts is too large to be trained here, or None.

    The parts may be on the meta device, where they take no memory. Each has the name of its group in ``config``. Only
    weights, gradients and the optimizer's averages are counted, so a model may need more, but never less.
    """
    counts, counted = dict.fromkeys(parts, 0), set()
    for name, part in parts.items():
        for weight in part.parameters():
            if weight not in counted:
                counted.add(weight)
                counts[name] += weight.numel()
    total, available = sum(counts.values()), available_memory()
    needed = total * BYTES_PER_NUMBER * _copies(config)
    if available is None or needed <= available:
        return None
    largest = max(counts, key=lambda name: counts[name])
    sizes = {key: value for key, value in config[largest].items() if type(value) is int}
    key = max(sizes, key=lambda key: sizes[key], default=None)
    place = largest if key is None else f"{largest}.{key}={sizes[key]}"
    return (
        f"{place}: training a model of {total:,} parameters needs {needed / GIGABYTE:,.0f} GB of memory, but "
        f"{available / GIGABYTE:,.1f} GB are free; lower the sizes of the model, its layers or its vocabulary"
    )


def _copies(config: Mapping[str, Any]) -> int:
    """Return how many numbers per weight are in main memory: on a GPU, the model is only built there.

    An adapter freezes the weights, so they have no gradients and no averages.
    """
    if config.get("adapt") is not None:
        return 1
    if config.get("device") != "cpu" and torch.cuda.is_available():
        return 1
    averages = 2 if "betas" in config["optimizer"] else 0  # Adam and its relatives
    return 2 + averages
