"""The last checkpoint of a run, from which it is resumed."""

from __future__ import annotations

import signal
import zlib
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import Checkpoint

from nmt.training.checkpoints import BestCheckpoints
from nmt.training.ranks import gather, rank, sums, world_size


class Stopped(Exception):
    """Training stopped on request, after writing the last checkpoint."""


class LastCheckpoint(Checkpoint):
    """Writes the checkpoint ``path`` after every epoch and every ``every`` updates.

    Once ``stop_signal`` is set, it writes one after the current update, and stops there.
    Ends a run that has made ``max_steps`` updates; the data module ends the epoch there. Lightning's own max_steps
    repeats the end of an epoch when a run is resumed there.

    Lightning calls a ``Checkpoint`` after the callbacks whose state it saves.
    """

    def __init__(
        self, path: Path, best: BestCheckpoints, *, max_steps: int | None = None, every: int | None = None
    ) -> None:
        self.path = path
        self.max_steps = max_steps
        self.every = every
        self.best = best
        self.started = False
        self.stop_signal: int | None = None

    def state_dict(self) -> dict[str, Any]:
        """Return the random states of the ranks' CPUs: a resumed run drops out what the uninterrupted run would."""
        return {"random": torch.stack(gather(torch.get_rng_state()))}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the random state of this rank. Another number of ranks than before starts with new states."""
        states = state["random"].reshape(-1, state["random"].shape[-1])  # one row in runs of earlier versions
        if len(states) == world_size():
            torch.set_rng_state(states[rank()].clone())
        else:
            torch.manual_seed(zlib.crc32(states.numpy().tobytes()) + (rank() << 32))

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.started = True
        trainer.should_stop |= self._is_complete(trainer)

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        updated = (batch_idx + 1) % trainer.accumulate_grad_batches == 0  # a checkpoint holds no gradients
        if not updated or trainer.is_last_batch:
            return
        stops = self._agree_to_stop()
        if stops or (self.every is not None and trainer.global_step % self.every == 0):
            self._save(trainer)
        if stops:
            raise Stopped

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        stops = self._agree_to_stop()
        self._save(trainer)
        trainer.should_stop |= stops or self._is_complete(trainer)

    def _agree_to_stop(self) -> bool:
        """Return whether all ranks stop now: a signal reaches them at different moments, or only one of them.

        A signal that arrives after this rank has answered counts from the next update on.
        """
        stops = bool(sums([self.stop_signal or 0])[0] > 0)
        if stops and self.stop_signal is None:
            self.stop_signal = signal.SIGTERM
        return stops

    def _is_complete(self, trainer: pl.Trainer) -> bool:
        return self.max_steps is not None and trainer.global_step >= self.max_steps

    def _save(self, trainer: pl.Trainer) -> None:
        trainer.save_checkpoint(self.path, weights_only=False)
        self.best.remove_replaced()
