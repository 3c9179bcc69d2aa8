"""Early stopping."""

from __future__ import annotations

from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.callbacks import EarlyStopping

from nmt.training.merit import merit


class Patience(EarlyStopping):
    """Stops after ``patience`` validations without progress, by the comparison that also chooses the best checkpoint.

    A resumed run that had already stopped does not continue.
    """

    def __init__(self, monitor: str, *, mode: str, patience: int) -> None:
        super().__init__(monitor, mode=mode, patience=patience)
        self.best_merit = (-float("inf"), -float("inf"))

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "best_merit": list(self.best_merit)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        score, loss = state_dict["best_merit"]
        self.best_merit = (score, loss)

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        trainer.should_stop |= self.wait_count >= self.patience

    def _run_early_stopping_check(self, trainer: pl.Trainer) -> None:
        current = merit(trainer.callback_metrics, self.monitor)
        if current > self.best_merit:
            self.best_merit, self.wait_count = current, 0
            return
        self.wait_count += 1
        if self.wait_count >= self.patience:
            self.stopped_epoch = trainer.current_epoch
            trainer.should_stop = True
