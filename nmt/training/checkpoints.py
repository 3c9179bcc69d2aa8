"""Checkpoints: the best one, and the last one, with which a run stops and is resumed."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import EarlyStopping, ModelCheckpoint
from pytorch_lightning.plugins.io import TorchCheckpointIO
from torch import Tensor

from nmt.errors import STOP_SIGNALS, UserError
from nmt.files.checkpoint import read_checkpoint, write_checkpoint
from nmt.inference.model_folder import non_finite
from nmt.inference.run_files import LAST_CHECKPOINT
from nmt.training.distributed import gather, rank, sums, world_size
from nmt.training.logs import warn
from nmt.training.metrics import QUALITY

# Lightning would resume without the states of callbacks or loops, but not as the uninterrupted run.
KEYS = {
    **dict.fromkeys(("callbacks", "loops", "metrics", "state_dict"), dict),
    **dict.fromkeys(("lr_schedulers", "optimizer_states"), list),
    **dict.fromkeys(("epoch", "global_step", "longest_source"), int),
}
REPEAT_S = 1.0  # timeout(1) and closing terminals send the same signal twice within microseconds


class Diverged(Exception):
    """Training produced a number that is not finite. The message says which one."""


class Stopped(Exception):
    """Training stopped on request, after writing the last checkpoint."""


class Kept(NamedTuple):
    """The weights of a checkpoint, its epoch (from 1), and its value of ``training.monitor`` if it was validated."""

    weights: dict[str, Tensor]
    epoch: int
    score: float | None


class SafeCheckpoints(TorchCheckpointIO):
    """Reads and writes checkpoints with ``nmt.files``: durably, and without running code from them.

    Lightning writes into memory first, and then into /tmp, from where a move into another file system is not atomic.
    """

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        if (name := non_finite(checkpoint["state_dict"])) is not None:
            raise Diverged(f"weight {name} is not finite after update {checkpoint['global_step']}")
        Path(path).parent.mkdir(exist_ok=True)
        write_checkpoint(Path(path), checkpoint)

    def load_checkpoint(self, path: Any, map_location: Any = None, weights_only: bool | None = None) -> dict[str, Any]:
        return read_checkpoint(Path(path), keys=KEYS)


class Checkpoints(ModelCheckpoint):
    """Keeps the best checkpoint by ``valid_quality``, and the last one.

    Its state names the file without its folder, so that a run can be moved.
    """

    def __init__(self, folder: Path, monitored: str) -> None:
        super().__init__(
            folder,
            "best-{epoch}",
            monitor=QUALITY,
            mode="max",
            save_on_train_epoch_end=True,
            enable_version_counter=False,
        )
        self.folder = folder.resolve()
        self.last = self.folder / LAST_CHECKPOINT
        self.monitored = monitored

    def state_dict(self) -> dict[str, Any]:
        return {"scores": {Path(path).name: float(score) for path, score in self.best_k_models.items()}}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the best checkpoint, unless its file was deleted."""
        for name, score in state_dict["scores"].items():
            if (file := self.folder / name).is_file():
                self.best_model_path = self.kth_best_model_path = str(file)
                self.best_k_models = {str(file): torch.tensor(score)}

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        super().on_train_epoch_end(trainer, pl_module)
        self.write_last(trainer)

    def write_last(self, trainer: pl.Trainer) -> None:
        """Write the checkpoint from which a run is resumed."""
        trainer.save_checkpoint(self.last, weights_only=False)

    def read(self) -> Kept | None:
        """Return the weights of the best checkpoint, or else of the last one; a damaged file is skipped."""
        for path in filter(Path.is_file, (Path(self.best_model_path), self.last)):
            try:
                stored = read_checkpoint(path, keys=KEYS)
            except UserError as error:
                warn(f"{error}; the checkpoint is skipped")
                continue
            weights = {name.removeprefix("model."): weight for name, weight in stored["state_dict"].items()}
            score = None if path == self.last else stored["metrics"].get(self.monitored)
            return Kept(weights, stored["epoch"] + 1, score)
        return None


class Patience(EarlyStopping):
    """Stops after ``patience`` validations without a better ``valid_quality``; a resumed run does not go on."""

    def __init__(self, patience: int) -> None:
        super().__init__(QUALITY, mode="max", patience=patience, check_on_train_epoch_end=True)

    @property
    def is_over(self) -> bool:
        """Whether there was no progress for ``patience`` validations."""
        return self.wait_count >= self.patience

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        trainer.should_stop |= self.is_over


class RandomState(pl.Callback):
    """Stores the random states of all ranks in the checkpoints, so that dropout goes on as if uninterrupted."""

    def state_dict(self) -> dict[str, Any]:
        state = {"random": torch.stack(gather(torch.get_rng_state()))}
        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            state["random_gpu"] = torch.stack(gather(torch.cuda.get_rng_state()))
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the state of this rank. Another number of ranks keeps the new states."""
        if len(state_dict["random"]) != world_size():
            return
        torch.set_rng_state(state_dict["random"][rank()].clone())
        if "random_gpu" in state_dict and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            torch.cuda.set_rng_state(state_dict["random_gpu"][rank()].clone())


class StopOnSignal(pl.Callback):
    """Lets Ctrl-C, SIGTERM or SIGHUP stop training with a checkpoint after the current update.

    A second signal, later, stops the process at once. Add it behind all callbacks whose state the checkpoint stores.
    """

    def __init__(self, checkpoints: Checkpoints) -> None:
        self.checkpoints = checkpoints
        self.started = False
        self.signal: int | None = None
        self._stops = False
        self._received_s = 0.0
        self._handlers: dict[int, Any] = {}  # what the signals did before

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Handle the signals while the block runs.

        Those that are ignored, as under nohup, stay ignored. Python handles signals in the main thread only, so in any
        other thread this does nothing.
        """
        if threading.current_thread() is threading.main_thread():
            handlers = {number: signal.getsignal(number) for number in STOP_SIGNALS}
            self._handlers = {number: old for number, old in handlers.items() if old not in (signal.SIG_IGN, None)}
        self._handle_signals()
        try:
            yield
        finally:
            for number, handler in self._handlers.items():
                signal.signal(number, handler)

    def _handle_signals(self) -> None:
        for number in self._handlers:
            signal.signal(number, self._request_stop)

    def _request_stop(self, number: int, frame: Any) -> None:
        if self.signal is None:
            self.signal = number
            self._received_s = time.monotonic()
        elif time.monotonic() - self._received_s > REPEAT_S:
            raise SystemExit(128 + number)

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        # Lightning has set its own handler of SIGTERM, which waits for the other processes, and so for ever.
        self._handle_signals()
        self.started = True

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        # A checkpoint holds no gradients, and the end of an epoch has its own.
        ends_update = (batch_idx + 1) % trainer.accumulate_grad_batches == 0 and not trainer.is_last_batch
        if ends_update and self._agreed():
            self.checkpoints.write_last(trainer)
            self._stops = True

    def on_train_batch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Any, index: int) -> None:
        if self._stops:  # not before, because Lightning logs the last update after on_train_batch_end
            raise Stopped

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        trainer.should_stop |= self._agreed()  # the checkpoint of the epoch follows

    def _agreed(self) -> bool:
        """Return whether all ranks stop now: a signal reaches them at different moments, or only one of them."""
        stops = bool(sums([self.signal or 0])[0] > 0)
        if stops and self.signal is None:
            self.signal = signal.SIGTERM
        return stops
