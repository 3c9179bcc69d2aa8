"""The checkpoints of a run: its best ones, and the one from which an interrupted run goes on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import Checkpoint, ModelCheckpoint
from pytorch_lightning.plugins.io import TorchCheckpointIO
from torch import Tensor

from nmt.storage import read_checkpoint, write_checkpoint


class WholeCheckpoints(TorchCheckpointIO):
    """Reads and writes checkpoints as models are: whole or not at all, in place, and never executing anything."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        write_checkpoint(Path(path), checkpoint)

    def load_checkpoint(self, path: Any, map_location: Any = None, weights_only: bool | None = None) -> dict[str, Any]:
        return read_checkpoint(Path(path))


class BestCheckpoints(ModelCheckpoint):
    """Keeps the best states by ``training.monitor`` in ``folder``; of equals the later, which has learnt more."""

    monitor: str

    def __init__(self, folder: Path, training: Mapping[str, Any]) -> None:
        monitor = training["monitor"]
        super().__init__(
            dirpath=folder,
            filename="best-{epoch}-{" + monitor + ":.3f}",
            monitor=monitor,
            mode="min" if monitor == "valid_loss" else "max",
            save_top_k=training["keep_best"],
            enable_version_counter=False,
        )

    def check_monitor_top_k(self, trainer: pl.Trainer, current: Tensor | None = None) -> bool:
        return super().check_monitor_top_k(trainer, current) or bool(current == self.kth_value)

    def _update_best_and_save(
        self, current: Tensor, trainer: pl.Trainer, monitor_candidates: dict[str, Tensor]
    ) -> None:
        super()._update_best_and_save(current, trainer, monitor_candidates)
        if current == self.best_model_score:
            self.best_model_path = list(self.best_k_models)[-1]

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on with the best so far, which lie in the run's folder, wherever that is now."""
        folder = str(self.dirpath)

        def here(path: str) -> str:
            return str(Path(folder) / Path(path).name) if path else ""

        paths = {key: here(state_dict[key]) for key in ("best_model_path", "kth_best_model_path", "last_model_path")}
        best = {here(path): score for path, score in state_dict["best_k_models"].items()}
        super().load_state_dict({**state_dict, **paths, "best_k_models": best, "dirpath": folder})


class Stopped(Exception):
    """Training was asked to stop, and the last checkpoint says where."""


class LastCheckpoint(Checkpoint):
    """Keeps ``path`` as the state after the last epoch or, once ``asked`` to stop, after the update that ran then.

    A ``Checkpoint`` to Lightning, which so calls it after all whose state it is to hold.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.asked = False

    def state_dict(self) -> dict[str, Any]:
        """Where dropout's draws stand, on a CPU: a resumed run makes those that were to come."""
        return {"random": torch.get_rng_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        torch.set_rng_state(state["random"])

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

    def _save(self, trainer: pl.Trainer) -> None:
        trainer.save_checkpoint(self.path, weights_only=False)
