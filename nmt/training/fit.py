"""Train on prepared corpora and leave the best model in the run's folder."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytorch_lightning as pl
from pytorch_lightning.callbacks import LearningRateMonitor
from pytorch_lightning.loggers import Logger
from pytorch_lightning.plugins.precision import Precision

from nmt.errors import UserError
from nmt.inference.model_folder import TrainedModel, choose_device
from nmt.inference.oversized import is_out_of_memory
from nmt.text.prepare import Prepared
from nmt.text.sampled import sampled_pieces
from nmt.training.checkpoints import (
    AtomicCheckpoints,
    BestCheckpoints,
    Diverged,
    EpochCheckpoints,
    LastCheckpoint,
    Stopped,
)
from nmt.training.data import CorpusBatches
from nmt.training.guide import build_guide
from nmt.training.metrics import MetricsFile, TensorBoardFiles
from nmt.training.module import TranslationTask
from nmt.training.new_model import new_model, refuse_longer, save_model
from nmt.training.optional import reason
from nmt.training.patience import Patience
from nmt.training.precision import Bfloat16
from nmt.training.progress import LiveProgress
from nmt.training.quiet import without_advice
from nmt.training.signals import stop_on_signal

CHECKPOINTS = "checkpoints"
LAST = "last.ckpt"


class Fitted(NamedTuple):
    """The outcome of training, summed over all sessions of a resumed run.

    ``best`` is the best value of ``training.monitor``, ``kept`` the epoch (from 1) that reached it. ``early``: stopped
    by ``training.patience``. ``stop_signal``: the signal that stopped the run, which can be resumed.
    """

    trained: TrainedModel
    seconds: float
    tokens_per_s: float
    epochs: int
    updates: int
    best: float | None
    kept: int
    early: bool
    stop_signal: int | None


def fit(
    config: Mapping[str, Any], prepared: Prepared, folder: Path, *, resume: bool, tracker: Logger | None = None
) -> Fitted:
    """Train the model that ``config`` describes and write the best checkpoint as the model of ``folder``.

    Ctrl-C, SIGTERM and SIGHUP stop training after the current update; ``resume`` continues with the next one.
    """
    pl.seed_everything(config["seed"], workers=True, verbose=False)
    best = BestCheckpoints(folder / CHECKPOINTS, config["training"])
    last = LastCheckpoint(folder / CHECKPOINTS / LAST, best, max_steps=config["training"]["max_steps"])
    trained = new_model(config, prepared, checkpoint=last.path if resume else None)
    refuse_longer(trained.model.attention, prepared)
    guide = build_guide(config, prepared)
    progress = LiveProgress()
    patience = config["training"]["patience"]
    callbacks: list[pl.Callback] = [progress, best, last, LearningRateMonitor("epoch")]
    if (interval := config["training"]["keep_every_n_epochs"]) is not None:
        callbacks.append(EpochCheckpoints(folder / CHECKPOINTS, interval))
    if patience is not None:
        callbacks.append(Patience(best.monitor, mode=best.mode, patience=patience))
    with without_advice():
        trainer = _trainer(config, folder, callbacks, [] if tracker is None else [tracker])
    task = TranslationTask(trained, config=config, valid=prepared.corpora["valid"], guide=guide)
    data = CorpusBatches(
        prepared.corpora["train"],
        prepared.corpora["valid"],
        batches=config["batches"],
        seed=config["seed"],
        max_steps=config["training"]["max_steps"],
        pieces=sampled_pieces(prepared, config["batches"].get("bpe_dropout"), seed=config["seed"]),
    )
    problem = None
    try:
        with without_advice(), stop_on_signal(last), contextlib.suppress(Stopped):
            trainer.fit(task, data, ckpt_path=last.path if resume else None, weights_only=True)
    except Diverged as error:
        problem = _explain_divergence(error, config)
    except Exception as error:
        if not resume or last.started or isinstance(error, UserError) or is_out_of_memory(error):
            raise
        raise UserError(f"{last.path}: cannot be resumed ({reason(error)}); start a new run") from error
    best.remove_replaced()  # also where the run was killed at its very end and trained nothing now
    kept = best.read(last.path, trained.model)
    if kept is None:
        raise UserError(problem or f"{last.path}: missing; start a new run")
    trained.model.load_state_dict(kept.weights)
    device = choose_device(config["device"])  # Lightning moves the model away after training
    trained = save_model(folder, replace(trained, model=trained.model.to(device).eval()))
    if problem is not None:
        raise UserError(f"{problem}; the model of epoch {kept.epoch} is in {folder}")
    stopped = any(callback.stopped_epoch > 0 for callback in trainer.early_stopping_callbacks)
    early = stopped and not reached_limit(config["training"], trainer.current_epoch, trainer.global_step)
    return Fitted(
        trained,
        progress.elapsed,
        progress.tokens_per_s,
        trainer.current_epoch,
        trainer.global_step,
        kept.score,
        kept.epoch,
        early,
        last.stop_signal,
    )


def reached_limit(training: Mapping[str, Any], epochs: int, updates: int) -> bool:
    """Return whether a run that has made these epochs and updates ended by ``max_epochs`` or ``max_steps``."""
    return any(
        most is not None and made >= most
        for made, most in ((epochs, training["max_epochs"]), (updates, training["max_steps"]))
    )


def _explain_divergence(error: Diverged, config: Mapping[str, Any]) -> str:
    return (
        f"{error}: training cannot continue; lower optimizer.lr (now {config['optimizer'].get('lr')}), "
        "raise schedule.warmup_steps, or lower training.clip_norm"
    )


class _Trainer(pl.Trainer):
    """Lightning's trainer, except that SIGTERM does not stop it: ``LastCheckpoint`` does, after saving the run."""

    @property
    def received_sigterm(self) -> bool:
        return False


def _trainer(
    config: Mapping[str, Any], folder: Path, callbacks: list[pl.Callback], trackers: Sequence[Logger] = ()
) -> pl.Trainer:
    settings = config["training"]
    minutes = settings["max_minutes"]
    device = choose_device(config["device"])
    return _Trainer(
        accelerator="gpu" if device.type == "cuda" else "cpu",
        devices=[device.index or 0] if device.type == "cuda" else 1,
        max_epochs=settings["max_epochs"] or -1,
        max_time=None if minutes is None else datetime.timedelta(minutes=minutes),
        accumulate_grad_batches=config["batches"]["accumulate"],
        gradient_clip_val=settings["clip_norm"],
        callbacks=callbacks,
        plugins=[AtomicCheckpoints(), Bfloat16(device) if config["precision"] == "bf16" else Precision()],
        logger=[MetricsFile(folder), TensorBoardFiles(folder), *trackers],
        use_distributed_sampler=False,
        reload_dataloaders_every_n_epochs=1,  # a new order for each epoch
        num_sanity_val_steps=0,
        log_every_n_steps=20,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
    )
