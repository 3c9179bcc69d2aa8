"""Checkpoints: the best ones, and the last one, with which a run stops and is resumed."""

from __future__ import annotations

import os
import signal
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import Checkpoint
from pytorch_lightning.plugins.io import TorchCheckpointIO
from torch import Tensor
from torch.nn import Module

from nmt.errors import STOP_SIGNALS, UserError
from nmt.files.checkpoint import read_checkpoint, write_checkpoint
from nmt.files.checksum import require_format
from nmt.inference.model_folder import non_finite
from nmt.inference.run_files import LAST_CHECKPOINT
from nmt.training.distributed import from_first, gather, rank, sums, world_size
from nmt.training.logs import DeletedRun, warn
from nmt.training.metrics import LOSS, Quality, quality
from nmt.training.settings import TrainingSettings

FORMAT = 3
# Lightning would resume without the states of callbacks or loops, but not as the uninterrupted run.
KEYS = {
    **dict.fromkeys(("callbacks", "loops", "portable", "state_dict"), dict),
    **dict.fromkeys(("lr_schedulers", "optimizer_states"), list),
    **dict.fromkeys(("epoch", "global_step"), int),
}
REPEAT_S = 1.0  # timeout(1) and closing terminals send the same signal twice within microseconds


class Diverged(Exception):
    """Training produced a number that is not finite. The message says which one."""


class Stopped(Exception):
    """Training stopped on request, after writing the last checkpoint."""


class Kept(NamedTuple):
    """The weights that a run keeps, the epoch (from 1) they are from, and their value of ``training.monitor``."""

    weights: dict[str, Tensor]
    epoch: int
    score: float | None


class AtomicCheckpoints(TorchCheckpointIO):
    """Reads and writes checkpoints with ``nmt.files``: atomically, and without running code from them."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        if (name := non_finite(checkpoint["state_dict"])) is not None:
            raise Diverged(f"weight {name} is not finite after update {checkpoint['global_step']}")
        folder = Path(path).parent
        try:
            folder.mkdir(exist_ok=True)
        except FileNotFoundError:
            raise DeletedRun(folder.parent) from None
        write_checkpoint(Path(path), {**checkpoint, "format": FORMAT})

    def load_checkpoint(self, path: Any, map_location: Any = None, weights_only: bool | None = None) -> dict[str, Any]:
        try:
            checkpoint = read_checkpoint(Path(path), keys=KEYS)
        except UserError as error:
            fix = "start a new run"
            if others := sorted(set(Path(path).parent.glob("*.ckpt")) - {Path(path)}, key=os.path.getmtime):
                fix = f"to continue from an earlier one: cp {others[-1]} {path}"
            raise UserError(f"{error}; {fix}") from None
        require_format(checkpoint.get("format"), FORMAT, name=path, fix="start a new run")
        return checkpoint


class BestCheckpoints(Checkpoint):
    """Keeps the best checkpoints by ``quality`` in ``folder``. Of equal checkpoints, the later one is better."""

    last_model_path = ""

    def __init__(self, folder: Path, training: TrainingSettings) -> None:
        self.folder = folder
        self.monitor = training.monitor
        self.save_top_k = max(training.keep_best, training.average_checkpoints or 1)
        self.scores: dict[str, dict[str, float]] = {}  # of each file, in the order of the epochs

    @property
    def best_k_models(self) -> dict[str, float]:
        """The monitored scores by path, best first. Loggers with ``log_model`` upload these files."""
        return {str(self.folder / name): self.scores[name][self.monitor] for name in self._ranking(self.scores)}

    @property
    def best_model_path(self) -> str:
        return next(iter(self.best_k_models), "")

    def state_dict(self) -> dict[str, Any]:
        return {"scores": self.scores}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the best checkpoints. Missing files are skipped, with a warning."""
        scores = state_dict["scores"]
        present = from_first(lambda: [name for name in scores if (self.folder / name).is_file()])
        self.scores = {name: scores[name] for name in present}
        for name in scores.keys() - self.scores.keys():
            warn(f"{self.folder / name}: missing; only the other checkpoints can be kept")

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Write a checkpoint if the model is among the best."""
        new = {name: float(trainer.callback_metrics[name]) for name in (self.monitor, LOSS)}
        file = f"best-epoch={trainer.current_epoch}-{self.monitor}={new[self.monitor]:.3f}.ckpt"
        scores = {**self.scores, file: new}
        kept = self._ranking(scores)[: self.save_top_k]
        if file not in kept:
            return
        self.scores = {name: scores[name] for name in scores if name in kept}
        trainer.save_checkpoint(self.folder / file, weights_only=False)
        for logger in trainer.loggers:
            logger.after_save_checkpoint(self)  # type: ignore[arg-type]

    def _ranking(self, scores: dict[str, dict[str, float]]) -> list[str]:
        """Return the names, best first. Of equal checkpoints, the later one is first."""
        return sorted(reversed(scores), key=lambda name: quality(scores[name], self.monitor), reverse=True)

    def best_quality(self) -> Quality:
        """Return the quality of the best checkpoint."""
        return max(quality(scores, self.monitor) for scores in self.scores.values())

    def remove_replaced(self) -> None:
        """Delete the files of checkpoints that are no longer among the best.

        Call it after the last checkpoint is written, because a run that is killed earlier resumes from a checkpoint
        that still names these files.
        """
        if rank() != 0:
            return
        for file in self.folder.glob("best-epoch=*.ckpt"):
            if file.name not in self.scores:
                with suppress(OSError):
                    file.unlink()

    def read(self, last: Path, model: Module) -> Kept | None:
        """Return the best weights that can be read, fit ``model`` and are finite: of a best checkpoint or the ``last``.

        Return None if no file qualifies. Files that cannot be used are skipped with a warning.
        """
        files = [*self.best_k_models, *([str(last)] if last.exists() else [])]
        return next(self._usable(files, model), None)

    def read_best(self, count: int, model: Module) -> list[Kept]:
        """Return the weights of up to ``count`` best checkpoints, best first, of those that can be used."""
        return list(self._usable(list(self.best_k_models)[:count], model))

    def _usable(self, paths: list[str], model: Module) -> Iterator[Kept]:
        for path in paths:
            try:
                stored = read_checkpoint(Path(path), keys={"state_dict": dict, "epoch": int})
                weights = {str(name).removeprefix("model."): weight for name, weight in stored["state_dict"].items()}
                _check_weights(weights, model.state_dict(), path)
            except UserError as error:
                warn(f"{error}; the checkpoint is skipped")
            else:
                yield Kept(weights, stored["epoch"] + 1, self.best_k_models.get(path))


def _check_weights(weights: Mapping[str, Any], expected: Mapping[str, Tensor], path: str) -> None:
    """Raise UserError unless the weights have the names and shapes of the ``expected`` ones and are finite."""
    for name in sorted(weights.keys() | expected.keys()):
        if getattr(weights.get(name), "shape", None) != getattr(expected.get(name), "shape", None):
            raise UserError(f"{path}: weight model.{name} does not fit this model")
    if (infinite := non_finite(weights)) is not None:
        raise UserError(f"{path}: weight model.{infinite} is not finite")


class LastCheckpoint(Checkpoint):
    """Writes the checkpoint ``path`` after every epoch and every ``training.checkpoint_every`` updates.

    Once a signal has stopped the run, it writes one after the current update, and ends training there.
    Ends a run that has made ``max_steps`` updates; the data module ends the epoch there. Lightning's own max_steps
    repeats the end of an epoch when a run is resumed there.

    Lightning calls a ``Checkpoint`` after the callbacks whose state it saves.
    """

    def __init__(self, best: BestCheckpoints, training: TrainingSettings) -> None:
        self.path = best.folder / LAST_CHECKPOINT
        self.best = best
        self.max_steps = training.max_steps
        self.every = training.checkpoint_every
        self.on_start: Callable[[], None] | None = None
        self.started = False
        self.stop_signal: int | None = None
        self._stops = False
        self._received_s = 0.0
        self._handlers: dict[int, Any] = {}  # what the signals did before

    def state_dict(self) -> dict[str, Any]:
        """Return the random states of the ranks and of their GPUs, so that dropout goes on as if uninterrupted."""
        state = {"random": torch.stack(gather(torch.get_rng_state()))}
        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            state["random_gpu"] = torch.stack(gather(torch.cuda.get_rng_state()))
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the random state of this rank. If the number of ranks has changed, all start with new states."""
        states = state_dict["random"]
        if len(states) == world_size():
            torch.set_rng_state(states[rank()].clone())
            gpu_states = state_dict.get("random_gpu")
            if gpu_states is not None and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
                torch.cuda.set_rng_state(gpu_states[rank()].clone())
        else:
            torch.manual_seed(zlib.crc32(states.numpy().tobytes()) + (rank() << 32))

    @contextmanager
    def stop_on_signal(self) -> Iterator[None]:
        """Let Ctrl-C, SIGTERM or SIGHUP stop training after the current update, and a second signal, later, at once.

        Signals that are ignored, as under nohup, stay ignored. Python handles signals in the main thread only, so in
        any other thread this does nothing.
        """
        if threading.current_thread() is threading.main_thread():
            before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
            self._handlers = {number: old for number, old in before.items() if old not in (signal.SIG_IGN, None)}
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
        if self.stop_signal is None:
            self.stop_signal = number
            self._received_s = time.monotonic()
        elif time.monotonic() - self._received_s > REPEAT_S:
            raise SystemExit(128 + number)

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        # Lightning has set its own handler of SIGTERM, which waits for the other processes, and so for ever.
        self._handle_signals()
        self.start()
        trainer.should_stop |= self._is_complete(trainer)

    def start(self) -> None:
        """Call ``on_start``, once."""
        if not self.started and self.on_start is not None:
            self.on_start()
        self.started = True

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        updated = (batch_idx + 1) % trainer.accumulate_grad_batches == 0  # a checkpoint holds no gradients
        if not updated or trainer.is_last_batch:
            return
        self._stops = self._agree_to_stop()
        if self._stops or (self.every is not None and trainer.global_step % self.every == 0):
            self._save(trainer)

    def on_train_batch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Any, index: int) -> None:
        if self._stops:  # not before, because Lightning logs the last update after on_train_batch_end
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


class Patience(pl.Callback):
    """Stops after ``patience`` validations without progress. The best checkpoint is chosen by the same comparison.

    A resumed run that had already stopped does not continue.
    """

    def __init__(self, monitor: str, patience: int) -> None:
        self.monitor, self.patience = monitor, patience
        self.best: Quality | None = None
        self.waited = 0

    @property
    def is_over(self) -> bool:
        """Whether there was no progress for ``patience`` validations."""
        return self.waited >= self.patience

    def state_dict(self) -> dict[str, Any]:
        return {"best": self.best, "waited": self.waited}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.best = state_dict["best"]
        self.waited = state_dict["waited"]

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        trainer.should_stop |= self.is_over

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.count(trainer.callback_metrics)
        trainer.should_stop |= self.is_over

    def count(self, scores: Mapping[str, Any]) -> None:
        """Count a validation with these scores."""
        current = quality(scores, self.monitor)
        if self.best is None or current > self.best:
            self.best, self.waited = current, 0
        else:
            self.waited += 1
