"""When training stops, since nothing gets better any more."""

from __future__ import annotations

import pytorch_lightning as pl
from pytorch_lightning.callbacks import EarlyStopping


class Patience(EarlyStopping):
    """Stops training as Lightning's does, and a resumed run that had stopped already stays so."""

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        trainer.should_stop |= self.wait_count >= self.patience
