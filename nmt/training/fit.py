"""Train on prepared corpora and leave the best model in the run's folder."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytorch_lightning as pl
import torch
from pytorch_lightning.loggers import Logger

from nmt.errors import UserError, counted, reason
from nmt.inference.model_folder import TrainedModel, choose_device
from nmt.inference.run_files import CHECKPOINTS, LAST_CHECKPOINT
from nmt.system.machine import is_out_of_memory
from nmt.text.prepare import Prepared
from nmt.text.sampled import sampled_pieces
from nmt.training.averaging import Average, MovingAverage, average_weights, validate_weights
from nmt.training.checkpoints import BestCheckpoints, Diverged, EpochCheckpoints
from nmt.training.data import CorpusBatches
from nmt.training.groups import TrainingSettings
from nmt.training.guide import build_guide
from nmt.training.last_checkpoint import LastCheckpoint, Stopped
from nmt.training.merit import LOSS, merit
from nmt.training.module import TranslationTask
from nmt.training.new_model import new_model, refuse_longer, save_model
from nmt.training.optional import warn
from nmt.training.patience import Patience
from nmt.training.progress import LiveProgress
from nmt.training.quiet import without_advice
from nmt.training.ranks import first_before_others, rank
from nmt.training.settings import Train
from nmt.training.signals import stop_on_signal
from nmt.training.trainer import build_trainer

WARMUPS = 5  # a run should be at least this many times as long as its warm-up


class Fitted(NamedTuple):
    """The outcome of training, summed over all sessions of a resumed run.

    ``best`` is the best value of ``training.monitor``, ``kept`` the epoch (from 1) that reached it. ``average`` is that
    of the best checkpoints. ``early``: stopped by ``training.patience``. ``stop_signal``: the signal that stopped the
    run, which can be resumed.
    """

    trained: TrainedModel
    seconds: float
    tokens_per_s: float
    epochs: int
    updates: int
    best: float | None
    kept: int
    average: Average | None
    early: bool
    stop_signal: int | None


class _Session(NamedTuple):
    """The parts of one session of training."""

    trained: TrainedModel
    best: BestCheckpoints
    last: LastCheckpoint
    progress: LiveProgress
    trainer: pl.Trainer
    task: TranslationTask
    data: CorpusBatches


def fit(
    config: Train, prepared: Prepared, folder: Path, *, resume: bool, tracker: Logger | None = None
) -> Fitted | None:
    """Train the model that ``config`` describes and write the best checkpoint as the model of ``folder``.

    Of several processes, rank 0 writes it, and the others return None.

    Ctrl-C, SIGTERM and SIGHUP stop training after the current update; ``resume`` continues with the next one.
    """
    session = _start(config, prepared, folder, resume=resume, tracker=tracker)
    problem = _run(session, config, resume=resume)
    return _save_best(session, config, folder, problem) if rank() == 0 else None


def _start(config: Train, prepared: Prepared, folder: Path, *, resume: bool, tracker: Logger | None) -> _Session:
    """Build the model, its data and the trainer."""
    training = config.training
    pl.seed_everything(config.seed, workers=True, verbose=False)
    best = BestCheckpoints(folder / CHECKPOINTS, training)
    limits = {"max_steps": training.max_steps, "every": training.checkpoint_every}
    last = LastCheckpoint(folder / CHECKPOINTS / LAST_CHECKPOINT, best, **limits)
    with first_before_others():
        trained = new_model(config, prepared, checkpoint=last.path if resume else None)
        refuse_longer(trained.model.attention, prepared)
        guide = build_guide(config.guide, prepared, trust=config.trust)
    if rank() != 0:
        torch.manual_seed(config.seed + (rank() << 32))  # each rank drops out other units
    progress = LiveProgress()
    callbacks = [progress, best, last, *_optional_callbacks(training, best, folder)]
    with without_advice():
        trainer = build_trainer(config, folder, callbacks, [] if tracker is None else [tracker])
    task = TranslationTask(trained, config=config, valid=prepared.corpora["valid"], guide=guide)
    data = CorpusBatches(
        prepared.corpora["train"],
        prepared.corpora["valid"],
        batches=config.batches,
        seed=config.seed,
        max_steps=training.max_steps,
        pieces=sampled_pieces(prepared, config.batches.bpe_dropout, seed=config.seed),
        text=prepared.checksum,
    )
    if rank() == 0 and not resume and (problem := too_few_updates(config, data)):
        warn(problem)
    return _Session(trained, best, last, progress, trainer, task, data)


def too_few_updates(config: Train, data: CorpusBatches) -> str | None:
    """Return why the run ends before the learning rate has warmed up, with the fix, or None if it does not."""
    warmup, training = config.schedule.block.get("warmup_steps"), config.training
    if not isinstance(warmup, int):
        return None
    per_epoch = math.ceil(data.batches_per_epoch() / config.batches.accumulate)
    wanted = WARMUPS * warmup
    limits = {"max_epochs": (per_epoch, math.ceil(wanted / per_epoch)), "max_steps": (1, wanted)}
    counts = {"max_epochs": training.max_epochs, "max_steps": training.max_steps}
    updates = {key: count * limits[key][0] for key, count in counts.items() if count is not None}
    key = min(updates, key=updates.__getitem__, default="")
    if not key or updates[key] >= warmup:
        return None
    return (
        f"training.{key}={counts[key]}: ends after {counted(updates[key], 'update')}, before the learning rate has "
        f"warmed up (schedule.warmup_steps={warmup}); set training.{key}={limits[key][1]}, or smaller "
        "batches.max_tokens and schedule.warmup_steps"
    )


def _optional_callbacks(training: TrainingSettings, best: BestCheckpoints, folder: Path) -> Iterator[pl.Callback]:
    """Yield the callbacks of the settings that are not null."""
    if (interval := training.keep_every_n_epochs) is not None:
        yield EpochCheckpoints(folder / CHECKPOINTS, interval)
    if (patience := training.patience) is not None:
        yield Patience(best.monitor, mode=best.mode, patience=patience)
    if (decay := training.ema_decay) is not None:
        yield MovingAverage(decay)


def _run(session: _Session, config: Train, *, resume: bool) -> str | None:
    """Train until the end or a signal. Return the reason if the loss diverged."""
    last = session.last
    try:
        with without_advice(), stop_on_signal(last), contextlib.suppress(Stopped):
            checkpoint = last.path if resume else None
            session.trainer.fit(session.task, session.data, ckpt_path=checkpoint, weights_only=True)
    except Diverged as error:
        return _explain_divergence(error, config)
    except Exception as error:
        if not resume or last.started or isinstance(error, UserError) or is_out_of_memory(error):
            raise
        raise UserError(f"{last.path}: cannot be resumed ({reason(error)}); start a new run") from error
    return None


def _save_best(session: _Session, config: Train, folder: Path, problem: str | None) -> Fitted:
    """Write the best weights as the model of ``folder``. Raises UserError if ``problem`` stopped the training."""
    trained, best, last, progress, trainer, task, data = session
    best.remove_replaced()  # also where the run was killed at its very end and trained nothing now
    kept = best.read(last.path, trained.model)
    if kept is None:
        raise UserError(problem or f"{last.path}: missing; start a new run")
    average = None
    if problem is None and last.stop_signal is None:
        average = _average(config, best, task, data, trainer)
    weights = kept.weights if average is None or not average.kept else average.weights
    trained.model.load_state_dict(weights)
    device = choose_device(config.device)  # Lightning moves the model away after training
    trained = save_model(folder, replace(trained, model=trained.model.to(device).eval()))
    if problem is not None:
        raise UserError(f"{problem}; the model of epoch {kept.epoch} is in {folder}")
    stopped = any(callback.stopped_epoch > 0 for callback in trainer.early_stopping_callbacks)
    early = stopped and not reached_limit(config.training, trainer.current_epoch, trainer.global_step)
    return Fitted(
        trained,
        progress.elapsed,
        progress.tokens_per_s,
        trainer.current_epoch,
        trainer.global_step,
        kept.score,
        kept.epoch,
        average,
        early,
        last.stop_signal,
    )


def _average(
    config: Train, best: BestCheckpoints, task: TranslationTask, data: CorpusBatches, trainer: pl.Trainer
) -> Average | None:
    """Return the average of the best checkpoints with its validation score, or None if it is off or there is only one.

    It is to be kept if it validates at least as well as the best checkpoint.
    """
    if (count := config.training.average_checkpoints) is None:
        return None
    models = best.read_best(count, task.model)
    if len(models) < 2:
        return None
    weights = average_weights([model.weights for model in models])
    task.to(choose_device(config.device))
    scores = validate_weights(task, weights, data.all_valid(), trainer.precision_plugin)
    kept = math.isfinite(scores[LOSS]) and merit(scores, best.monitor) >= best.best_merit()
    return Average(weights, sorted(model.epoch for model in models), scores[best.monitor], kept)


def reached_limit(training: TrainingSettings, epochs: int, updates: int) -> bool:
    """Return whether a run that has made these epochs and updates ended by ``max_epochs`` or ``max_steps``."""
    return any(
        most is not None and made >= most
        for made, most in ((epochs, training.max_epochs), (updates, training.max_steps))
    )


def _explain_divergence(error: Diverged, config: Train) -> str:
    rate, clip_norm = config.optimizer.get("lr"), config.training.clip_norm
    fixes = ["lower optimizer.lr" + (f" (now {rate})" if rate is not None else "")]
    fixes += ["raise schedule.warmup_steps"] if "warmup_steps" in config.schedule.block else []
    fixes += ["set training.clip_norm=1" if clip_norm is None else "lower training.clip_norm"]
    return f"{error}: training cannot continue; {', '.join(fixes[:-1])}, or {fixes[-1]}"
