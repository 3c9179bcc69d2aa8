"""Checkpoints of a run: the best ones, and the last one, from which an interrupted run is resumed."""

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


class AtomicCheckpoints(TorchCheckpointIO):
    """Reads and writes checkpoints with ``nmt.storage``: atomically, and without running code from them."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        write_checkpoint(Path(path), checkpoint)

    def load_checkpoint(self, path: Any, map_location: Any = None, weights_only: bool | None = None) -> dict[str, Any]:
        return read_checkpoint(Path(path))


class BestCheckpoints(ModelCheckpoint):
    """Keeps the best checkpoints by ``training.monitor`` in ``folder``; of equals the later one."""

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
        """Restore the best checkpoints, with their paths in the run's folder: it may have been moved."""
        folder = str(self.dirpath)

        def moved(path: str) -> str:
            return str(Path(folder) / Path(path).name) if path else ""

        paths = {key: moved(state_dict[key]) for key in ("best_model_path", "kth_best_model_path", "last_model_path")}
        best = {moved(path): score for path, score in state_dict["best_k_models"].items()}
        super().load_state_dict({**state_dict, **paths, "best_k_models": best, "dirpath": folder})


class Stopped(Exception):
    """Training stopped on request, after writing the last checkpoint."""


class LastCheckpoint(Checkpoint):
    """Writes the checkpoint ``path`` after every epoch, and after the current update once ``stop_requested`` is set.

    Lightning calls a ``Checkpoint`` after the callbacks whose state it saves.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.stop_requested = False

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the CPU's random numbers: a resumed run drops out what the uninterrupted run would."""
        return {"random": torch.get_rng_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        torch.set_rng_state(state["random"])

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        updated = (batch_idx + 1) % trainer.accumulate_grad_batches == 0  # a checkpoint holds no gradients
        if self.stop_requested and updated and not trainer.is_last_batch:
            self._save(trainer)
            raise Stopped

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._save(trainer)
        trainer.should_stop |= self.stop_requested

    def _save(self, trainer: pl.Trainer) -> None:
        trainer.save_checkpoint(self.path, weights_only=False)
