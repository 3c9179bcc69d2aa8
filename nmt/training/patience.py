"""Early stopping."""

from __future__ import annotations

import pytorch_lightning as pl
from pytorch_lightning.callbacks import EarlyStopping


class Patience(EarlyStopping):
    """Lightning's early stopping, except that a resumed run which had already stopped does not continue."""

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        trainer.should_stop |= self.wait_count >= self.patience
