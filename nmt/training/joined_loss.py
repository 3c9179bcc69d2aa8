"""Losses of the joint batch of all ranks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from torch import Tensor

from nmt.training.ranks import sums, world_size


class Joined(NamedTuple):
    """Losses ``scaled`` for averaged gradients, their ``means`` over all ranks, and how many pieces each is of."""

    scaled: dict[str, Tensor]
    means: dict[str, float]
    counts: dict[str, int]


def join_losses(losses: Mapping[str, Tensor], counts: Mapping[str, int]) -> Joined:
    """Return the losses of this rank joined with those of the others.

    Each loss is a mean over as many pieces as ``counts`` says. DDP averages the gradients of the ranks, whose batches
    have different numbers of pieces. With the scaled losses, that average is the gradient of the joined batch.
    """
    if world_size() == 1:
        return Joined(dict(losses), {name: loss.item() for name, loss in losses.items()}, dict(counts))
    names = sorted(losses, reverse=True)  # train_loss first
    numbers = [(counts[name], counts[name] * losses[name].item()) for name in names]
    totals = sums([number for pair in numbers for number in pair])
    scaled, means = {}, {}
    for name, pieces, total in zip(names, totals[::2], totals[1::2], strict=True):
        scaled[name] = losses[name] * (counts[name] * world_size() / max(1.0, pieces))
        means[name] = total / max(1.0, pieces)
    return Joined(scaled, means, {name: int(count) for name, count in zip(names, totals[::2], strict=True)})
