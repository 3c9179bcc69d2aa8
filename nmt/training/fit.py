"""Train on prepared corpora with Lightning's trainer, and leave the best model in the run's folder."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import pytorch_lightning as pl
import torch
from lightning_fabric.plugins.environments.lightning import LightningEnvironment
from pytorch_lightning.callbacks import LambdaCallback, LearningRateMonitor
from pytorch_lightning.loggers import Logger, TensorBoardLogger
from pytorch_lightning.plugins.precision import Precision
from pytorch_lightning.strategies import DDPStrategy
from pytorch_lightning.utilities.exceptions import SIGTERMException

from nmt.errors import UserError, counted, print_message, reason
from nmt.inference.model_folder import TrainedModel, choose_device
from nmt.inference.run_files import CHECKPOINTS
from nmt.system.machine import is_out_of_memory
from nmt.text.prepare import Prepared
from nmt.training.checkpoints import (
    Checkpoints,
    Diverged,
    Patience,
    RandomState,
    SafeCheckpoints,
    StopOnSignal,
    Stopped,
)
from nmt.training.data import CorpusBatches
from nmt.training.distributed import environment, processes_per_node, rank, world_size
from nmt.training.guide import build_guide
from nmt.training.logs import MetricsFile, Progress, warn, without_advice
from nmt.training.settings import Train
from nmt.training.task import POINT_EVERY, TranslationTask
from nmt.training.weights import Average, MovingAverage, average_best, new_model, refuse_longer, save_model


@dataclass(frozen=True, kw_only=True)
class Fitted:
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


def fit(
    config: Train,
    prepared: Prepared,
    folder: Path,
    *,
    logger: Logger | None = None,
    on_start: Callable[[], None] | None = None,
) -> Fitted | None:
    """Train the model that ``config`` describes and write the best checkpoint as the model of ``folder``.

    Of several processes, rank 0 writes it, and the others return None.

    Ctrl-C, SIGTERM and SIGHUP stop training after the current update; ``resume`` continues with the next one.
    ``on_start`` is called once the checkpoint of a resumed run was accepted.
    """
    session = _Session(config, prepared, folder, logger, on_start)
    problem = session.run()
    return session.save_best(folder, problem) if rank() == 0 else None


class _Session:
    """One session of training: the model, its data, and the trainer with its callbacks."""

    def __init__(
        self,
        config: Train,
        prepared: Prepared,
        folder: Path,
        logger: Logger | None,
        on_start: Callable[[], None] | None,
    ) -> None:
        training = config.training
        pl.seed_everything(config.seed, workers=True, verbose=False)
        self.config = config
        self.checkpoints = Checkpoints(folder / CHECKPOINTS, training)
        self.stop = StopOnSignal(self.checkpoints)
        trained = new_model(config, prepared, checkpoint=self.checkpoints.last if config.resume else None)
        refuse_longer(trained.model, prepared)
        guide = build_guide(config.guide, prepared, trust=config.trust)
        if guide is not None and not config.resume:
            guide.start(trained.model)
        if rank() != 0:
            torch.manual_seed(config.seed + (rank() << 32))  # each rank drops out other units
        self.progress = Progress()
        self.patience = None if training.patience is None else Patience(training.patience)
        callbacks: list[pl.Callback | None] = [
            self.progress,
            self.patience,
            None if training.ema_decay is None else MovingAverage(decay=training.ema_decay, use_buffers=False),
            RandomState(),
            self.stop,
            self.checkpoints,
            None if on_start is None else LambdaCallback(on_fit_start=lambda *_: on_start()),
        ]
        with without_advice():
            self.trainer = build_trainer(config, folder, [*filter(None, callbacks)], logger)
        self.task = TranslationTask(trained, config=config, valid=prepared.corpora["valid"], guide=guide)
        self.data = CorpusBatches(prepared, config)
        if training.validate_every is not None:
            updates = counted(training.validate_every, "update")
            print_message(f"an epoch is {updates}, {self.data.passes_per_epoch():.3g} passes over the training text")
        if not config.resume and (problem := too_few_updates(config, self.data)):
            warn(problem)

    def run(self) -> str | None:
        """Train until the end or a signal. Return the reason if the loss diverged."""
        resumes = self.config.resume
        checkpoint = self.checkpoints.last if resumes else None
        try:
            # SIGTERM before our handlers are set raises Lightning's exception after the first update.
            with without_advice(), self.stop.listening(), suppress(Stopped, SIGTERMException):
                self.trainer.fit(self.task, self.data, ckpt_path=checkpoint, weights_only=True)
        except Diverged as error:
            return _explain_divergence(error, self.config)
        except Exception as error:
            if not resumes or self.stop.started or isinstance(error, UserError) or is_out_of_memory(error):
                raise
            raise UserError(f"{checkpoint}: cannot be resumed ({reason(error)}); start a new run") from error
        return None

    def save_best(self, folder: Path, problem: str | None) -> Fitted:
        """Write the best weights as the model of ``folder``. Raises UserError if ``problem`` stopped the training."""
        trained = self.task.trained
        if not (read := self.checkpoints.read()):
            raise UserError(problem or f"{self.checkpoints.last}: missing; start a new run")
        (kept,) = read
        average = None
        if problem is None and self.stop.signal is None:
            average = average_best(self.checkpoints, self.task, self.data, self.trainer)
        trained.model.load_state_dict(kept.weights if average is None or not average.kept else average.weights)
        device = choose_device(self.config.device)  # Lightning moves the model away after training
        trained = save_model(folder, replace(trained, model=trained.model.to(device).eval()))
        if problem is not None:
            raise UserError(f"{problem}; the model of epoch {kept.epoch} is in {folder}")
        epochs, updates, training = self.trainer.current_epoch, self.trainer.global_step, self.config.training
        limits = ((epochs, training.max_epochs), (updates, training.max_steps))
        at_limit = any(limit is not None and made >= limit for made, limit in limits)
        return Fitted(
            trained=trained,
            seconds=self.progress.elapsed,
            tokens_per_s=self.progress.tokens_per_s,
            epochs=epochs,
            updates=updates,
            best=kept.score,
            kept=kept.epoch,
            average=average,
            early=self.patience is not None and self.patience.is_over and not at_limit,
            stop_signal=self.stop.signal,
        )


def too_few_updates(config: Train, data: CorpusBatches) -> str | None:
    """Return a warning if the run ends before the learning rate has warmed up; otherwise None."""
    warmup, total = config.schedule.block.get("warmup_steps"), data.total_updates()
    if not isinstance(warmup, int) or total is None or total >= warmup:
        return None
    return (
        f"schedule.warmup_steps={warmup}: the run ends after {counted(total, 'update')}, before the learning rate has "
        "warmed up; set a smaller number, or train for more epochs"
    )


def _explain_divergence(error: Diverged, config: Train) -> str:
    rate = config.optimizer.get("lr")
    clip = "set training.clip_norm=1" if config.training.clip_norm is None else "lower training.clip_norm"
    return f"{error}: training cannot continue; lower optimizer.lr (now {rate}), raise schedule.warmup_steps, or {clip}"


def build_trainer(
    config: Train, folder: Path, callbacks: list[pl.Callback], logger: Logger | None = None
) -> pl.Trainer:
    """Return the trainer of this process. Only rank 0 has loggers."""
    settings = config.training
    minutes = settings.max_minutes
    device = choose_device(config.device)
    loggers: list[Logger] = []
    if rank() == 0:
        loggers = [MetricsFile(folder), TensorBoardLogger(folder, "tensorboard", ""), *([logger] if logger else [])]
        callbacks = [*callbacks, LearningRateMonitor("epoch")]
    if (launched := environment()) is None:
        placement: dict[str, Any] = {"devices": [device.index or 0] if device.type == "cuda" else 1}
    else:
        local = processes_per_node()
        placement = {"devices": local, "num_nodes": world_size() // local, "strategy": DDPStrategy()}
    precision = Bfloat16(device) if config.precision == "bf16" else Precision()
    return pl.Trainer(
        **placement,
        accelerator="gpu" if device.type == "cuda" else "cpu",
        max_epochs=settings.max_epochs or -1,
        max_time=None if minutes is None else datetime.timedelta(minutes=minutes),
        accumulate_grad_batches=config.batches.accumulate,
        gradient_clip_val=settings.clip_norm,
        callbacks=callbacks,
        # Without an environment, Lightning takes any process of a Slurm job for one of several.
        plugins=[SafeCheckpoints(), precision, launched or LightningEnvironment()],
        logger=loggers,
        use_distributed_sampler=False,
        reload_dataloaders_every_n_epochs=1,  # a new order for each epoch
        num_sanity_val_steps=0,
        log_every_n_steps=POINT_EVERY,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
    )


class Bfloat16(Precision):
    """Lightning's bf16-mixed with fused optimizers, which Lightning forbids because of gradient scaling.

    bfloat16 needs no gradient scaling, so gradients can be clipped as usual.
    """

    precision: Literal["bf16-mixed"] = "bf16-mixed"

    def __init__(self, device: torch.device) -> None:
        self.device = device

    @contextmanager
    def forward_context(self) -> Iterator[None]:
        # No cache of bfloat16 weights: entries from a validation without gradients would be used in training.
        with torch.autocast(self.device.type, torch.bfloat16, cache_enabled=False):
            yield


def check_bfloat16(config: Train) -> None:
    """Raise UserError if this CPU cannot train the model in bfloat16."""
    if any("LSTM" in block["_target_"] for block in (config.encoder, config.decoder)) and not has_bfloat16_lstm():
        raise UserError("precision=bf16: this CPU has no LSTM in bfloat16; remove precision=bf16")


def has_bfloat16_lstm() -> bool:
    """Return whether this CPU can run an LSTM in bfloat16. oneDNN needs AVX-512 for it."""
    try:
        with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
            torch.nn.LSTM(8, 8)(torch.zeros(1, 1, 8))
    except RuntimeError:  # could not create a primitive descriptor
        return False
    return True
