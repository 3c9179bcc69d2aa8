"""Checkpoints of a run: the best ones, and the last one, from which an interrupted run is resumed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytorch_lightning as pl
from pytorch_lightning.callbacks import ModelCheckpoint
from pytorch_lightning.plugins.io import TorchCheckpointIO
from torch import Tensor
from torch.nn import Module

from nmt.errors import UserError
from nmt.files.checkpoint import read_checkpoint, write_checkpoint
from nmt.files.checksum import require_format
from nmt.inference.model_folder import non_finite
from nmt.training.groups import TrainingSettings
from nmt.training.merit import LOSS, Merit, merit
from nmt.training.optional import warn
from nmt.training.ranks import from_first, rank

FORMAT = 2
# Lightning would resume without the states of callbacks or loops, but not as the uninterrupted run.
KEYS = {
    **dict.fromkeys(("callbacks", "loops", "portable", "state_dict"), dict),
    **dict.fromkeys(("lr_schedulers", "optimizer_states"), list),
    **dict.fromkeys(("epoch", "global_step"), int),
}


class Diverged(Exception):
    """Training produced a number that is not finite. The message says which one."""


class Kept(NamedTuple):
    """The weights that a run keeps, the epoch (from 1) they are from, and their value of ``training.monitor``."""

    weights: dict[str, Tensor]
    epoch: int
    score: float | None


def deleted_run(folder: Path) -> UserError:
    """Return the error for a run whose folder is gone while it trains."""
    problem = "was deleted or moved during training, so its model and checkpoints are lost; train again"
    return UserError(f"{folder}: {problem}")


class AtomicCheckpoints(TorchCheckpointIO):
    """Reads and writes checkpoints with ``nmt.files``: atomically, and without running code from them."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        if (name := non_finite(checkpoint["state_dict"])) is not None:
            raise Diverged(f"weight {name} is not finite after update {checkpoint['global_step']}")
        folder = Path(path).parent
        try:
            folder.mkdir(exist_ok=True)
        except FileNotFoundError:
            raise deleted_run(folder.parent) from None
        write_checkpoint(Path(path), {**checkpoint, "format": FORMAT})

    def load_checkpoint(self, path: Any, map_location: Any = None, weights_only: bool | None = None) -> dict[str, Any]:
        checkpoint = read_checkpoint(Path(path), keys=KEYS)
        require_format(checkpoint.get("format"), FORMAT, place=path, fix="start a new run")
        return checkpoint


class BestCheckpoints(ModelCheckpoint):
    """Keeps the best checkpoints by ``merit`` in ``folder``; of equals the later one."""

    monitor: str

    def __init__(self, folder: Path, training: TrainingSettings) -> None:
        monitor = training.monitor
        super().__init__(
            dirpath=folder,
            filename="best-{epoch}-{" + monitor + ":.3f}",
            monitor=monitor,
            mode="min" if monitor == LOSS else "max",
            save_top_k=max(training.keep_best, training.average_checkpoints or 1),
            enable_version_counter=False,
        )
        self.losses: dict[str, float] = {}  # validation loss by path, as ``best_k_models`` has the monitored score

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "losses": self.losses}

    def _save_monitor_checkpoint(self, trainer: pl.Trainer, monitor_candidates: dict[str, Tensor]) -> None:
        """Write a checkpoint if the model is among the best. Lightning compares by the monitored score alone."""
        if len(self.best_k_models) >= self.save_top_k:
            worst = self._best_first()[-1]
            if merit(monitor_candidates, self.monitor) < self._merit(worst):
                return
            del self.best_k_models[worst], self.losses[worst]
        path = self.format_checkpoint_name(monitor_candidates)
        self.current_score = monitor_candidates[self.monitor]
        self.best_k_models[path], self.losses[path] = self.current_score, float(monitor_candidates[LOSS])
        self.best_model_path = self._best_first()[0]
        self.best_model_score = self.best_k_models[self.best_model_path]
        self._save_checkpoint(trainer, path)

    def _merit(self, path: str) -> Merit:
        return merit({self.monitor: self.best_k_models[path], LOSS: self.losses[path]}, self.monitor)

    def best_merit(self) -> Merit:
        """Return the merit of the best checkpoint."""
        return self._merit(self._best_first()[0])

    def _best_first(self) -> list[str]:
        """Return the paths of the best checkpoints, best first; of equals the later one first."""
        return sorted(reversed(self.best_k_models), key=self._merit, reverse=True)

    def remove_replaced(self) -> None:
        """Delete the files of checkpoints that are no longer among the best.

        Called after the last checkpoint is written: a run that is killed before resumes from one that still names them.
        """
        if rank() != 0:
            return
        named = {Path(path).name for path in self.best_k_models}
        for file in Path(str(self.dirpath)).glob("best-epoch=*.ckpt"):
            if file.name not in named:
                with suppress(OSError):
                    file.unlink()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the best checkpoints, with their paths in the run's folder: it may have been moved.

        Files that are missing are left out, with a warning.
        """
        folder = str(self.dirpath)

        def moved(path: str) -> str:
            return str(Path(folder) / Path(path).name) if path else ""

        best = {moved(path): score for path, score in state_dict["best_k_models"].items()}
        existing = from_first(lambda: {path for path in best if Path(path).is_file()})
        present = {path: score for path, score in best.items() if path in existing}
        path = moved(state_dict["best_model_path"])
        super().load_state_dict({**state_dict, "best_model_path": path, "best_k_models": present, "dirpath": folder})
        self.losses = {moved(path): loss for path, loss in state_dict["losses"].items() if moved(path) in present}
        for path in best.keys() - present.keys():
            warn(f"{path}: missing; only the other checkpoints can be kept")

    def read(self, last: Path, model: Module) -> Kept | None:
        """Return the best weights that can be read, fit ``model`` and are finite: of a best checkpoint or the ``last``.

        Return None if no file qualifies. Files that cannot be used are skipped with a warning.
        """
        return next(
            self._usable([*self._best_first(), str(last)] if last.exists() else self._best_first(), model), None
        )

    def read_best(self, count: int, model: Module) -> list[Kept]:
        """Return the weights of up to ``count`` best checkpoints, best first, of those that can be used."""
        return list(self._usable(self._best_first()[:count], model))

    def _usable(self, paths: list[str], model: Module) -> Iterator[Kept]:
        for path in paths:
            try:
                stored = read_checkpoint(Path(path), keys={"state_dict": dict, "epoch": int})
                weights = {str(name).removeprefix("model."): weight for name, weight in stored["state_dict"].items()}
                _check_weights(weights, model.state_dict(), path)
            except UserError as error:
                warn(f"{error}; the checkpoint is skipped")
                continue
            score = self.best_k_models.get(path)
            yield Kept(weights, stored["epoch"] + 1, None if score is None else float(score))


def _check_weights(weights: Mapping[str, Any], expected: Mapping[str, Tensor], path: str) -> None:
    """Raise UserError unless the weights have the names and shapes of the ``expected`` ones and are finite."""
    for name in sorted(weights.keys() | expected.keys()):
        if getattr(weights.get(name), "shape", None) != getattr(expected.get(name), "shape", None):
            raise UserError(f"{path}: weight model.{name} is not that of this model")
    if (infinite := non_finite(weights)) is not None:
        raise UserError(f"{path}: weight model.{infinite} is not finite")


class EpochCheckpoints(ModelCheckpoint):
    """Keeps a checkpoint of every ``every_n_epochs``-th epoch in ``folder``, named ``epoch=0-step=25.ckpt``."""

    def __init__(self, folder: Path, every_n_epochs: int) -> None:
        super().__init__(dirpath=folder, save_top_k=-1, every_n_epochs=every_n_epochs, enable_version_counter=False)

    def state_dict(self) -> dict[str, Any]:
        """Return nothing, so that a run can be moved, and resumed with another interval."""
        return {}
