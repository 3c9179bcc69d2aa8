"""The checkpoint from which an interrupted run goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.callbacks import Checkpoint


class Stopped(Exception):
    """Training was asked to stop, and the last checkpoint says where."""


class LastCheckpoint(Checkpoint):
    """Keeps ``path`` as the state after the last epoch or, once ``asked`` to stop, after the update that ran then.

    A ``Checkpoint`` to Lightning, which so calls it after all whose state it is to hold.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.asked = False

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        updated = (batch_idx + 1) % trainer.accumulate_grad_batches == 0  # gradients are no part of a checkpoint
        if self.asked and updated and not trainer.is_last_batch:
            self._save(trainer)
            raise Stopped

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._save(trainer)
        trainer.should_stop |= self.asked

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if self.asked:  # the plateau schedule, for one, has seen the epoch only now
            self._save(trainer)

    def _save(self, trainer: pl.Trainer) -> None:
        trainer.save_checkpoint(self.path, weights_only=False)
