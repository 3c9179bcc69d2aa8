"""Averages of weights: a moving average over the updates, and the average of the best checkpoints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import WeightAveraging
from torch import Tensor

from nmt.text.batches import Batch
from nmt.training.module import TranslationTask


class Average(NamedTuple):
    """The average of the best checkpoints: its epochs (from 1), its value of ``training.monitor``.

    ``kept``: it is the model of the run.
    """

    weights: dict[str, Tensor]
    epochs: list[int]
    score: float
    kept: bool


class MovingAverage(WeightAveraging):
    """Keeps the exponential moving average of the weights, which is validated and stored as the model.

    After t updates the decay is min(decay, (1 + t) / (10 + t)), so that the random weights of the start are soon
    forgotten. Checkpoints hold the average and the weights that training continues with.
    """

    def __init__(self, decay: float) -> None:
        def average(averaged: Tensor, current: Tensor, updates: Tensor) -> Tensor:
            count = float(updates)
            return averaged.lerp(current, 1 - min(decay, (1 + count) / (10 + count)))

        super().__init__(use_buffers=False, avg_fn=average)

    def on_validation_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Do nothing: the task translates after this, and must use the average too."""

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Continue with the weights of training. The callbacks that write checkpoints are called after this."""
        super().on_validation_epoch_end(trainer, pl_module)


def average_weights(models: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Return the mean of each weight over the models, computed in double precision."""
    first = models[0]
    means = {name: sum((model[name].double() for model in models[1:]), first[name].double()) for name in first}
    return {name: (mean / len(models)).to(first[name].dtype) for name, mean in means.items()}


@torch.no_grad()
def validate_weights(
    task: TranslationTask, weights: Mapping[str, Tensor], batches: Iterable[Batch], precision: Any
) -> dict[str, float]:
    """Load the weights into the model of ``task`` and return their validation scores, without Lightning's loops."""
    task.model.load_state_dict(weights)
    task.model.eval()
    totals: dict[str, float] = {}
    pieces = 0
    with precision.val_step_context():
        for batch in batches:
            values, count = task.validation_values(Batch(*(tensor.to(task.device) for tensor in batch)))
            pieces += count
            for name, value in values.items():
                totals[name] = totals.get(name, 0.0) + count * value.item()
    scores = task.translation_scores()  # without autocast, as Lightning calls it after an epoch
    return {name: total / pieces for name, total in totals.items()} | scores


def describe_average(average: Average, monitor: str, best: float | None) -> str:
    """Return one line about what the average of the best checkpoints changes."""
    epochs = ", ".join(map(str, average.epochs))
    scores = f"{monitor} {average.score:.3f}, the best checkpoint {best:.3f}"
    return f"average of epochs {epochs}: {scores}; the {'average' if average.kept else 'best checkpoint'} is kept"
