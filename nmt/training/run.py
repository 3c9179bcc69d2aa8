"""A whole training run as one function: prepare the text, train, evaluate, and leave everything in one folder."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import LambdaCallback
from pytorch_lightning.loggers import Logger
from pytorch_lightning.utilities.exceptions import SIGTERMException

from nmt.errors import UserError, counted, print_message, reason
from nmt.files.atomic import lock_folder, remove_leftovers
from nmt.files.checksum import code_of
from nmt.inference.model_folder import TrainedModel, choose_device
from nmt.inference.run_files import CHECKPOINTS
from nmt.kernels.process import flushed_denormals, keep_freed_memory
from nmt.system.machine import is_out_of_memory, torch_threads
from nmt.text.prepare import Prepared
from nmt.training.checkpoints import Checkpoints, Diverged, Kept, Patience, RandomState, StopOnSignal, Stopped
from nmt.training.data import CorpusBatches, prepared_text
from nmt.training.distributed import rank
from nmt.training.guide import build_guide
from nmt.training.logs import Progress, build_logger, finish, warn, without_advice
from nmt.training.metrics import NEAR_ZERO, PERCENT
from nmt.training.provenance import device_name, provenance
from nmt.training.report import report
from nmt.training.settings import Train
from nmt.training.task import TranslationTask
from nmt.training.trainer import build_trainer, check_bfloat16
from nmt.training.weights import MovingAverage, compare_lengths, new_model, save_model, stored_settings


class TrainingResult(NamedTuple):
    """The outcome of ``train_into``.

    A run that the signal ``stop_signal`` stopped has a model, but no ``summary``. Only rank 0 has a ``summary``.
    """

    folder: Path
    config: Train
    summary: dict[str, Any] | None
    seconds: float
    stop_signal: int | None = None


@flushed_denormals()
def train_into(
    folder: Path,
    config: Train,
    *,
    pairs: Mapping[str, Any] | None,
    store_config: Callable[[Mapping[str, Any]], None],
    advise: Callable[[int], str | None],
) -> TrainingResult:
    """Train the model that ``config`` describes, evaluate it on the test set, and write everything into ``folder``.

    With ``data=python``, ``pairs`` are the sentence pairs of each part. ``store_config`` is called with the settings
    that config.yaml stores, once training starts. ``advise`` returns a warning about the number of training pairs of a
    new run, or None. Raises UserError for anything that the user can fix.
    """
    with lock_folder(folder) if rank() == 0 else nullcontext(), _named_memory_errors(config):
        started = time.perf_counter()
        logger = None
        if rank() == 0:
            remove_leftovers(folder / CHECKPOINTS)
            logger = build_logger(config.logger, folder, trust=config.trust)
        keep_freed_memory()
        if config.threads is not None:
            torch.set_num_threads(torch_threads(config.threads))
        on_cpu = choose_device(config.device).type == "cpu"
        print_message(f"threads: {torch.get_num_threads()}" if on_cpu else f"device: {device_name(config.device)}")
        if config.precision == "bf16" and on_cpu:
            check_bfloat16(config)
        prepared = prepared_text(folder, config, pairs)
        stored = stored_settings(config, prepared)
        # The code that trains may change until the end.
        origin = {**provenance(config.device), "text_checksum": prepared.checksum, "code": code_of(stored)}
        origin["pairs"] = {part: counts.kept for part, counts in prepared.pair_counts.items()}
        if logger is not None and not config.resume:
            logger.log_hyperparams(dict(stored))
        session = _Session(config, prepared, folder, logger, partial(store_config, stored))
        if not config.resume and (problem := advise(origin["pairs"]["train"]) or too_few_updates(config, session.data)):
            warn(problem)
        problem = session.run()
        result = TrainingResult(folder, config, None, time.perf_counter() - started)
        if rank() != 0:
            return result
        trained, numbers = session.save_best(problem)
        if session.stop.signal is not None:
            return result._replace(stop_signal=session.stop.signal)
        test = prepared.corpora.get("test")
        if test is not None:
            print_message("translating the test set …")
        summary = report(config, trained, test, folder, {**numbers, **origin})
        if logger is not None:
            finish(logger, summary, numbers["updates"])
        if config.export and config.adapt is None:  # the graphs would hold the whole model
            export_run(trained, folder)
        return result._replace(summary=summary, seconds=time.perf_counter() - started)


@contextmanager
def _named_memory_errors(config: Train) -> Iterator[None]:
    """Turn any error for lack of memory into a UserError that names the setting to lower."""
    try:
        yield
    except Exception as error:
        if isinstance(error, UserError) or not is_out_of_memory(error):
            raise
        tokens = config.batches.max_tokens
        fix = "lower it, or the sizes of the model"
        raise UserError(f"batches.max_tokens={tokens}: not enough memory; {fix}") from None


class _Session:
    """One session of training: the model, its data, and the trainer with its callbacks.

    Ctrl-C, SIGTERM and SIGHUP stop it after the current update; ``resume`` continues with the next one. ``on_start`` is
    called on rank 0 once the checkpoint of a resumed run was accepted.
    """

    def __init__(
        self, config: Train, prepared: Prepared, folder: Path, logger: Logger | None, on_start: Callable[[], None]
    ) -> None:
        training = config.training
        pl.seed_everything(config.seed, workers=True, verbose=False)
        self.config, self.folder = config, folder
        self.checkpoints = Checkpoints(folder / CHECKPOINTS, training.monitor)
        self.stop = StopOnSignal(self.checkpoints)
        trained = new_model(config, prepared, checkpoint=self.checkpoints.last if config.resume else None)
        compare_lengths(trained.model, prepared)
        guide = build_guide(config.guide, prepared, trust=config.trust)
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
            LambdaCallback(on_fit_start=lambda *_: on_start()) if rank() == 0 else None,
        ]
        self.trainer = build_trainer(config, folder, [*filter(None, callbacks)], logger)
        self.task = TranslationTask(trained, config=config, valid=prepared.corpora["valid"], guide=guide)
        self.data = CorpusBatches(prepared, config)

    def run(self) -> str | None:
        """Train until the end or a signal. Return the reason if the loss diverged."""
        resumes = self.config.resume
        checkpoint = self.checkpoints.last if resumes else None
        try:
            # SIGTERM before our handlers are set raises Lightning's exception after the first update.
            with without_advice(), self.stop.listening(), suppress(Stopped, SIGTERMException):
                self.trainer.fit(self.task, self.data, ckpt_path=checkpoint, weights_only=True)
        except Diverged as error:
            rate = self.config.optimizer.get("lr")
            fix = f"lower optimizer.lr (now {rate}) or training.clip_norm, or raise schedule.warmup_steps"
            return f"{error}: training cannot continue; {fix}"
        except Exception as error:
            if not resumes or self.stop.started or isinstance(error, UserError) or is_out_of_memory(error):
                raise
            raise UserError(f"{checkpoint}: cannot be resumed ({reason(error)}); start a new run") from error
        return None

    def save_best(self, problem: str | None) -> tuple[TrainedModel, dict[str, Any]]:
        """Write the best weights as the model of the run, and return it with the numbers of ``summary.json``.

        Numbers are summed over all sessions of a resumed run; ``valid_best`` is the best value of ``training.monitor``.
        Raises UserError if a ``problem`` has stopped the training.
        """
        if (kept := self.checkpoints.read()) is None:
            raise UserError(problem or f"{self.checkpoints.last}: missing; start a new run")
        trained = self.task.trained
        trained.model.load_state_dict(kept.weights)
        device = choose_device(self.config.device)  # Lightning moves the model away after training
        trained = save_model(self.folder, replace(trained, model=trained.model.to(device).eval()))
        if problem is not None:
            raise UserError(f"{problem}; the model of epoch {kept.epoch} is in {self.folder}")
        numbers = {
            "tokens_per_s": round(self.progress.tokens_per_s),
            "seconds": round(self.progress.elapsed, 1),
            "epochs": self.trainer.current_epoch,
            "updates": self.trainer.global_step,
            "kept_epoch": kept.epoch,
            "valid_best": kept.score,
        }
        if self.stop.signal is None:
            self._explain(kept)
        return trained, numbers

    def _explain(self, kept: Kept) -> None:
        """Print the reasons for the end of training and the choice of weights."""
        monitor = self.config.training.monitor
        if self.patience is not None and self.patience.is_over:
            validations = counted(self.patience.patience, "validation")
            print_message(f"training.patience: {monitor} did not improve in {validations}")
        if monitor in PERCENT and kept.score is not None and kept.score < NEAR_ZERO:
            print_message(f"{monitor} stayed below {NEAR_ZERO:g}, so the lowest valid_loss decided")
        print_message(f"the model of epoch {kept.epoch} is kept")


def too_few_updates(config: Train, data: CorpusBatches) -> str | None:
    """Return a warning if the run ends before the learning rate has warmed up; otherwise None."""
    warmup, total = config.schedule.get("warmup_steps"), data.total_updates()
    if not isinstance(warmup, int) or total is None or total >= warmup:
        return None
    return (
        f"schedule.warmup_steps={warmup}: the run ends after {counted(total, 'update')}, before the learning rate has "
        "warmed up; set a smaller number, or train for more epochs"
    )


def export_run(trained: TrainedModel, folder: Path) -> None:
    """Write the ONNX graphs of the finished run ``folder``. Any failure is one line in the log.

    It writes those of engine=onnx. The 8-bit graphs would add 3 s to 8 s, and 96 MB to 135 MB for the reference model;
    nmt-export writes them.
    """
    started = time.perf_counter()
    print_message("exporting the model for onnxruntime …")
    try:
        from nmt.inference.onnx.export import export

        export(trained, folder, engines=["onnx"])
    except Exception as error:  # the exporters raise anything
        warn(f"not exported: {reason(error)}; nmt-export tries again")
    else:
        print_message(f"exported in {time.perf_counter() - started:.1f} s; export=false skips this")
