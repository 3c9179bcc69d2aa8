"""Train on prepared corpora with Lightning's trainer, and leave the best model in the run's folder."""

from __future__ import annotations

import datetime
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import pytorch_lightning as pl
import torch
from lightning_fabric.plugins.environments.cluster_environment import ClusterEnvironment
from lightning_fabric.plugins.environments.lightning import LightningEnvironment
from lightning_fabric.plugins.environments.slurm import SLURMEnvironment
from lightning_fabric.plugins.environments.torchelastic import TorchElasticEnvironment
from pytorch_lightning.callbacks import LearningRateMonitor
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
    AtomicCheckpoints,
    BestCheckpoints,
    Diverged,
    LastCheckpoint,
    Patience,
    Stopped,
)
from nmt.training.data import CorpusBatches
from nmt.training.distributed import Launch, current_launch, first_before_others, rank
from nmt.training.guide import build_guide
from nmt.training.logs import Guarded, LiveProgress, MetricsFile, Tracker, warn, without_advice
from nmt.training.settings import Train, TrainingSettings
from nmt.training.task import POINT_EVERY, TranslationTask
from nmt.training.weights import Average, MovingAverage, average_best, new_model, refuse_longer, save_model

SLOW_BFLOAT16 = 1.2  # the user is warned if a bfloat16 product takes this many times as long as a float32 one
WARMUPS = 5  # a run should be at least this many times as long as its warm-up


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
    tracker: Tracker | None = None,
    on_start: Callable[[], None] | None = None,
) -> Fitted | None:
    """Train the model that ``config`` describes and write the best checkpoint as the model of ``folder``.

    Of several processes, rank 0 writes it, and the others return None.

    Ctrl-C, SIGTERM and SIGHUP stop training after the current update; ``resume`` continues with the next one.
    ``on_start`` is called once the checkpoint of a resumed run was accepted.
    """
    session = _Session(config, prepared, folder, tracker)
    session.last.on_start = on_start
    problem = session.run()
    return session.save_best(folder, problem) if rank() == 0 else None


class _Session:
    """One session of training: the model, its data, and the trainer with its callbacks."""

    def __init__(self, config: Train, prepared: Prepared, folder: Path, tracker: Tracker | None) -> None:
        training = config.training
        checkpoints = folder / CHECKPOINTS
        pl.seed_everything(config.seed, workers=True, verbose=False)
        self.config = config
        self.best = BestCheckpoints(checkpoints, training)
        self.last = LastCheckpoint(self.best, training)
        with first_before_others():
            trained = new_model(config, prepared, checkpoint=self.last.path if config.resume else None)
            refuse_longer(trained.model, prepared)
            guide = build_guide(config.guide, prepared, trust=config.trust)
            if guide is not None and not config.resume:
                guide.start(trained.model)
        if rank() != 0:
            torch.manual_seed(config.seed + (rank() << 32))  # each rank drops out other units
        self.progress = LiveProgress()
        self.patience = None if training.patience is None else Patience(training.monitor, training.patience)
        optional = [self.patience, None if training.ema_decay is None else MovingAverage(training.ema_decay)]
        callbacks = [self.progress, self.best, self.last, *filter(None, optional)]
        with without_advice():
            self.trainer = build_trainer(config, folder, callbacks, tracker)
        self.task = TranslationTask(trained, config=config, valid=prepared.corpora["valid"], guide=guide)
        self.data = CorpusBatches(prepared, config)
        if rank() == 0 and training.validate_every is not None:
            share = self.data.batches_per_epoch() / self.data.batches_per_pass()
            print_message(
                f"an epoch is {counted(training.validate_every, 'update')}, {share:.3g} passes over the training text"
            )
        if rank() == 0 and not config.resume and (problem := too_few_updates(config, self.data)):
            warn(problem)

    def run(self) -> str | None:
        """Train until the end or a signal. Return the reason if the loss diverged."""
        last = self.last
        resumes = self.config.resume
        try:
            # SIGTERM before our handlers are set raises Lightning's exception after the first update.
            with without_advice(), last.stop_on_signal(), suppress(Stopped, SIGTERMException):
                checkpoint = last.path if resumes else None
                self.trainer.fit(self.task, self.data, ckpt_path=checkpoint, weights_only=True)
            last.start()  # of a run that was already complete
        except Diverged as error:
            return _explain_divergence(error, self.config)
        except Exception as error:
            if not resumes or last.started or isinstance(error, UserError) or is_out_of_memory(error):
                raise
            raise UserError(f"{last.path}: cannot be resumed ({reason(error)}); start a new run") from error
        return None

    def save_best(self, folder: Path, problem: str | None) -> Fitted:
        """Write the best weights as the model of ``folder``. Raises UserError if ``problem`` stopped the training."""
        best = self.best
        last = self.last
        trained = self.task.trained
        best.remove_replaced()  # also where the run was killed at its very end and trained nothing now
        kept = best.read(last.path, trained.model)
        if kept is None:
            raise UserError(problem or f"{last.path}: missing; start a new run")
        average = None
        if problem is None and last.stop_signal is None:
            average = average_best(best, self.task, self.data, self.trainer)
        trained.model.load_state_dict(kept.weights if average is None or not average.kept else average.weights)
        device = choose_device(self.config.device)  # Lightning moves the model away after training
        trained = save_model(folder, replace(trained, model=trained.model.to(device).eval()))
        if problem is not None:
            raise UserError(f"{problem}; the model of epoch {kept.epoch} is in {folder}")
        epochs, updates = self.trainer.current_epoch, self.trainer.global_step
        is_over = self.patience is not None and self.patience.is_over
        return Fitted(
            trained=trained,
            seconds=self.progress.elapsed,
            tokens_per_s=self.progress.tokens_per_s,
            epochs=epochs,
            updates=updates,
            best=kept.score,
            kept=kept.epoch,
            average=average,
            early=is_over and not reached_limit(self.config.training, epochs, updates),
            stop_signal=last.stop_signal,
        )


def too_few_updates(config: Train, data: CorpusBatches) -> str | None:
    """Return an error text, with the fix, if the run ends before the learning rate has warmed up; otherwise None."""
    warmup = config.schedule.block.get("warmup_steps")
    training = config.training
    if not isinstance(warmup, int):
        return None
    per_epoch = math.ceil(data.batches_per_epoch() / config.batches.accumulate)
    limits = (("max_epochs", training.max_epochs, per_epoch), ("max_steps", training.max_steps, 1))
    ends = [(limit * updates, key, limit, updates) for key, limit, updates in limits if limit is not None]
    end, key, limit, updates = min(ends, default=(warmup, "", 0, 1))
    if end >= warmup:
        return None
    return (
        f"training.{key}={limit}: ends after {counted(end, 'update')}, before the learning rate has "
        f"warmed up (schedule.warmup_steps={warmup}); set training.{key}={math.ceil(WARMUPS * warmup / updates)}, or "
        "smaller batches.max_tokens and schedule.warmup_steps"
    )


def reached_limit(training: TrainingSettings, epochs: int, updates: int) -> bool:
    """Return whether a run that has made these epochs and updates ended by ``max_epochs`` or ``max_steps``."""
    return any(
        limit is not None and made >= limit
        for made, limit in ((epochs, training.max_epochs), (updates, training.max_steps))
    )


def _explain_divergence(error: Diverged, config: Train) -> str:
    rate = config.optimizer.get("lr")
    clip_norm = config.training.clip_norm
    fixes = ["lower optimizer.lr" + (f" (now {rate})" if rate is not None else "")]
    fixes += ["raise schedule.warmup_steps"] if "warmup_steps" in config.schedule.block else []
    fixes += ["set training.clip_norm=1" if clip_norm is None else "lower training.clip_norm"]
    return f"{error}: training cannot continue; {', '.join(fixes[:-1])}, or {fixes[-1]}"


def build_trainer(
    config: Train, folder: Path, callbacks: list[pl.Callback], tracker: Tracker | None = None
) -> pl.Trainer:
    """Return the trainer of this process. Only rank 0 has loggers."""
    settings = config.training
    minutes = settings.max_minutes
    device = choose_device(config.device)
    launch = current_launch()
    loggers: list[Logger] = []
    if rank() == 0:
        events = Guarded(f"{folder}/tensorboard", TensorBoardLogger(folder, "tensorboard", ""))
        loggers = [MetricsFile(folder), events, *([tracker] if tracker else [])]
    if launch is None:
        placement: dict[str, Any] = {"devices": [device.index or 0] if device.type == "cuda" else 1}
    else:
        placement = {"devices": launch.local_size, "num_nodes": launch.nodes, "strategy": DDPStrategy()}
    precision = Bfloat16(device) if config.precision == "bf16" else Precision()
    return pl.Trainer(
        **placement,
        accelerator="gpu" if device.type == "cuda" else "cpu",
        max_epochs=settings.max_epochs or -1,
        max_time=None if minutes is None else datetime.timedelta(minutes=minutes),
        accumulate_grad_batches=config.batches.accumulate,
        gradient_clip_val=settings.clip_norm,
        callbacks=[*callbacks, LearningRateMonitor("epoch")] if loggers else callbacks,
        plugins=[AtomicCheckpoints(), precision, _environment(launch)],
        logger=loggers,
        use_distributed_sampler=False,
        reload_dataloaders_every_n_epochs=1,  # a new order for each epoch
        num_sanity_val_steps=0,
        log_every_n_steps=POINT_EVERY,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
    )


def _environment(launch: Launch | None) -> ClusterEnvironment:
    """Return the object from which Lightning reads the ranks.

    By default, Lightning takes any process of a Slurm job for one of several, and requeues the job by itself.
    """
    if launch is None:
        return LightningEnvironment()
    return SLURMEnvironment(auto_requeue=False) if launch.launcher == "srun" else TorchElasticEnvironment()


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
    """Raise UserError if this CPU cannot train the model in bfloat16, and log if it does so slowly."""
    if any("LSTM" in block["_target_"] for block in (config.encoder, config.decoder)) and not has_bfloat16_lstm():
        raise UserError("precision=bf16: this CPU has no LSTM in bfloat16; remove precision=bf16")
    if (ratio := slowdown()) > SLOW_BFLOAT16:
        print_message(
            f"precision=bf16: products take {ratio:.1f} times as long as in float32 on this CPU; remove it to be faster"
        )


def has_bfloat16_lstm() -> bool:
    """Return whether this CPU can run an LSTM in bfloat16. oneDNN needs AVX-512 for it."""
    try:
        with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
            torch.nn.LSTM(8, 8)(torch.zeros(1, 1, 8))
    except RuntimeError:  # could not create a primitive descriptor
        return False
    return True


def slowdown() -> float:
    """Return the duration of a bfloat16 product divided by that of a float32 product."""
    seconds = []
    for dtype in (torch.bfloat16, torch.float32):
        x = torch.ones(512, 512, dtype=dtype)
        seconds.append(min(_seconds(x) for _ in range(5)))
    return seconds[0] / seconds[1]


def _seconds(x: torch.Tensor) -> float:
    started = time.perf_counter()
    (x @ x).sum().item()
    return time.perf_counter() - started
