"""Reports of a run while it trains: progress, metrics.csv, TensorBoard and experiment trackers.

No log may stop a run: its errors are warnings.
"""

from __future__ import annotations

import csv
import json
import logging
import os
import re
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import pytorch_lightning as pl
from pytorch_lightning.callbacks import ModelCheckpoint
from pytorch_lightning.loggers import Logger

from nmt.errors import UserError, counted, print_message, reason
from nmt.files.atomic import write_lines
from nmt.files.reading import read_json
from nmt.inference.run_files import METRICS_FILE
from nmt.settings.arguments import parameters_of
from nmt.settings.plugins import Block, PluginPoint, construct, locate
from nmt.system.progress import StatusLine, duration, time_left
from nmt.text.batches import Batch
from nmt.training.metrics import COLUMNS, HEADER, LOSS, PERCENT, read_rows

LOGGER = PluginPoint(
    Logger,
    ("pytorch_lightning.loggers",),
    supplied=frozenset({"id", "run_id"}),
    defaults=frozenset({"name", "run_name", "tracking_uri"}),
)
EXTRAS = {"WandbLogger": "wandb", "MLFlowLogger": "mlflow"}  # the extra of each class, named like its package
LOCAL_MLFLOW = "sqlite:///mlflow.db"  # MLflow's own default; Lightning's, a folder of files, is refused by MLflow
TRACKER_FILE = "logger.json"
REFRESH_S = 0.1  # of the status line
IDENTIFIER = re.compile(r"[\w.-]{1,128}")
# Lightning's messages about itself, and its advice to programmers.
ADVICE = (
    "The '.*dataloader' does not have many workers",  # a batch takes well under a millisecond
    "The number of training batches .* is smaller than the logging interval",
    ".*LeafSpec.* is deprecated",
    "You're resuming from a checkpoint that ended before the epoch ended",  # CorpusBatches skips what was read
    "Be aware that when using `ckpt_path`, callbacks",  # such as a Timer, which only limits one session
    ".*lr_scheduler.step.* before .*optimizer.step",
    "RNN module weights are not part of single contiguous chunk",  # cuDNN copies the weights of a single layer
)


class DeletedRun(UserError):
    """The folder of a run is gone while it trains."""

    def __init__(self, folder: Path) -> None:
        problem = "was deleted or moved during training, so its model and checkpoints are lost; train again"
        super().__init__(f"{folder}: {problem}")


def warn(message: str) -> None:
    print_message(f"warning: {message}")


@contextmanager
def optional(what: str) -> Iterator[None]:
    """Turn any error of the block into a warning: a failed picture or log must not end a run.

    Every exception counts, because the libraries that draw and log raise their own.
    """
    try:
        yield
    except Exception as error:
        warn(f"{what}: {reason(error)}; the run continues without it")


@contextmanager
def without_advice() -> Iterator[None]:
    """Silence Lightning's advice while the block runs; other warnings are still shown."""
    logger = logging.getLogger("pytorch_lightning")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            for message in ADVICE:
                warnings.filterwarnings("ignore", message=message)
            yield
    finally:
        logger.setLevel(before)


class Guarded(Logger):
    """Passes metrics to another Lightning logger. Its first error is a warning, after which it gets nothing more."""

    retries = False
    """Whether metrics are passed on after an error too."""

    def __init__(self, what: str, logger: Logger | None = None) -> None:
        super().__init__()
        self.what = what
        self.logger = cast(Logger, logger)
        self.failed = False

    @property
    def name(self) -> str:
        return self.what

    @property
    def version(self) -> str:
        return ""

    @contextmanager
    def guard(self) -> Iterator[None]:
        """Turn the first error of the blocks into a warning, and drop the others."""
        try:
            yield
        except DeletedRun:
            raise
        except Exception as error:
            if not self.failed:
                warn(f"{self.what}: {reason(error)}; the run continues without it")
            self.failed = True

    def write(self, metrics: Mapping[str, float], step: int | None) -> None:
        """Log the metrics of the update ``step``. May raise any exception."""
        self.logger.log_metrics(dict(metrics), step)

    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        if self.retries or not self.failed:
            with self.guard():
                self.write(metrics, step)

    def log_hyperparams(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing: config.yaml has them, and ``Tracker.start`` sends them."""

    def after_save_checkpoint(self, checkpoint_callback: ModelCheckpoint) -> None:
        """Do nothing: only trackers upload checkpoints."""

    def finalize(self, status: str) -> None:
        with self.guard():
            self.logger.finalize("finished")  # TensorBoard's would store settings after a success


class MetricsFile(Guarded):
    """Appends one row per set of metrics; steps are updates, losses nats per token, BLEU and chrF percent.

    Lightning's CSVLogger deletes the file of a resumed run.
    """

    retries = True

    def __init__(self, folder: Path) -> None:
        self.path = folder / METRICS_FILE
        super().__init__(str(self.path))

    def forget(self, step: int) -> None:
        """Drop the rows from update ``step`` on, which a resumed run repeats, and all damaged rows."""
        if not self.path.exists():
            return
        with optional(str(self.path)):
            rows, damaged = read_rows(self.path)
            if damaged:
                warn(f"{self.path}: dropped {damaged} damaged row{'s' * (damaged > 1)}")
            kept = [row for row in rows if int(row[0]) < step]
            if damaged or len(kept) < len(rows):
                write_lines(self.path, [HEADER, *(",".join(row) for row in kept)])

    def write(self, metrics: Mapping[str, float], step: int | None) -> None:
        rates = [value for name, value in metrics.items() if name.startswith("lr-")]  # LearningRateMonitor's name
        row = {"step": step, **metrics, **({"lr": rates[0]} if rates else {})}
        known = {name: row[name] for name in COLUMNS if name in row}
        if known.keys() <= {"step", "epoch"}:
            return
        if not self.path.parent.is_dir():
            raise DeletedRun(self.path.parent)
        new = not self.path.exists()
        with open(self.path, "a", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            if new:
                writer.writeheader()
            writer.writerow(known)

    def finalize(self, status: str) -> None:
        """Do nothing: each row is complete."""


class Tracker(Guarded):
    """An experiment tracker, which gets configuration, metrics and scores. ``close`` ends its log."""

    def __init__(self, target: str, logger: Logger) -> None:
        super().__init__(f"logger {target}", logger)
        self.target = target
        self.started = self.finished = False
        self.last_step: int | None = None

    def start(self, settings: Mapping[str, Any], folder: Path, *, resumed: bool) -> None:
        """Send the configuration, and store the tracker's number of this run in ``folder``."""
        with self.guard():
            if not resumed:
                self.logger.log_hyperparams(dict(settings))
            identifier = str(self.logger.version)
            self.started = True
            write_lines(folder / TRACKER_FILE, [json.dumps({"logger": self.target, "id": identifier})])

    def write(self, metrics: Mapping[str, float], step: int | None) -> None:
        self.last_step = step
        super().write(metrics, step)

    def log_summary(self, summary: Mapping[str, Any]) -> None:
        """Send the scores of the test set. The run has finished."""
        scores = {f"test_{name}": score for name, score in (summary["test"] or {}).items() if score is not None}
        if scores:
            self.log_metrics(scores, self.last_step)
        self.finished = True

    def after_save_checkpoint(self, checkpoint_callback: ModelCheckpoint) -> None:
        if not self.failed:
            with self.guard():
                self.logger.after_save_checkpoint(checkpoint_callback)

    def finalize(self, status: str) -> None:
        """Do nothing: ``close`` ends the log, because the scores of the test set come after training."""

    def close(self) -> None:
        """End the log. Without this, the next run in this process would be logged as a part of this one."""
        if not self.started:
            return
        with self.guard():
            self.logger.finalize("success" if self.finished else "failed")
        finish = getattr(getattr(self.logger, "experiment", None), "finish", None)
        if callable(finish):  # Weights & Biases
            with self.guard():
                finish(exit_code=int(not self.finished))


@contextmanager
def open_tracker(block: Block | None, folder: Path, *, resume: bool, trust: Sequence[str]) -> Iterator[Tracker | None]:
    """Yield the tracker that the block describes, or None, and close it at the end.

    A resumed run continues in the log of its first start. Raises UserError if the logger refuses its settings.
    """
    if block is None:
        yield None
        return
    target = block["_target_"]
    identifier = _stored_identifier(folder / TRACKER_FILE, target) if resume else None
    supplied: dict[str, Any] = {"name": folder.name, "run_name": folder.name, "id": identifier, "run_id": identifier}
    # Not a key of the configuration, which people share: the address may hold a password.
    supplied["tracking_uri"] = os.environ.get("MLFLOW_TRACKING_URI", LOCAL_MLFLOW)
    # Not what ``**rest`` takes, which WandbLogger passes on to wandb.init.
    named = parameters_of(locate(target, LOGGER, trust=trust)).named
    supplied = {key: value for key, value in supplied.items() if key in named}
    try:
        tracker = Tracker(target, construct(block, LOGGER, trust=trust, **supplied))
    except UserError:
        raise
    except Exception as error:  # each tracker raises its own
        raise UserError(f"logger: {target} refuses its settings: {reason(error)}") from None
    try:
        yield tracker
    finally:
        tracker.close()


def _stored_identifier(file: Path, target: str) -> str | None:
    """Return the tracker's number of a run that is resumed, or None if it was not logged there."""
    try:
        stored = read_json(file)
        identifier = stored["id"] if stored["logger"] == target else None
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return identifier if isinstance(identifier, str) and IDENTIFIER.fullmatch(identifier) else None


def tracker_problems(block: Block) -> Iterator[str]:
    """Yield a message if the package of the logger is not installed."""
    extra = EXTRAS.get(block["_target_"].rpartition(".")[2])
    if extra is not None and find_spec(extra) is None:
        yield f"logger={extra}: needs the extra {extra}; in the clone: pip install '.[{extra}]'"


class LiveProgress(pl.Callback):
    """Prints one line per validation, and between them a status line with loss, speed and time left."""

    def __init__(self) -> None:
        self.line = StatusLine(every_s=REFRESH_S)
        self.batches = 0  # since the start of the run; a resumed run estimates it from its updates
        self.tokens = 0
        self.seconds = 0.0  # in training steps only
        self.elapsed = 0.0  # seconds in total, validation included
        self._since = self._mark = 0.0
        self._first = 0  # batches before this session

    @property
    def tokens_per_s(self) -> float:
        """Target tokens per second of training, without validation."""
        return self.tokens / self.seconds if self.seconds else 0.0

    def state_dict(self) -> dict[str, Any]:
        """Return the counts from which a resumed run continues."""
        return {"tokens": self.tokens, "seconds": self.seconds, "elapsed": self.elapsed + self._lap()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        vars(self).update(state_dict)

    def _lap(self) -> float:
        return time.perf_counter() - self._mark

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        # Lightning does not call on_train_epoch_start for a resumed epoch.
        self._mark = self._since = time.perf_counter()
        self.line = StatusLine(every_s=REFRESH_S)
        self._first = self.batches = trainer.global_step * trainer.accumulate_grad_batches

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._since = time.perf_counter()

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Batch, batch_idx: int
    ) -> None:
        now = time.perf_counter()
        self.seconds += now - self._since
        self._since = now
        self.batches += 1
        self.tokens += int(pl_module.target_pieces)  # type: ignore[arg-type]
        self.line.show(lambda elapsed: self._text(trainer, pl_module, elapsed))

    def _text(self, trainer: pl.Trainer, task: Any, elapsed: float) -> str:
        """Return epoch, updates, the mean loss since the last point of the learning curve, speed and time left."""
        settings = task.settings
        epochs, steps, minutes = settings.max_epochs, settings.max_steps, settings.max_minutes
        by_epochs = None if epochs is None else epochs * trainer.datamodule.batches_per_epoch()  # type: ignore[attr-defined]
        by_steps = None if steps is None else steps * trainer.accumulate_grad_batches
        # max_minutes counts this session only.
        by_minutes = minutes and self._first + (self.batches - self._first) * 60 * minutes / elapsed
        total = min((limit for limit in (by_epochs, by_steps, by_minutes) if limit is not None), default=None)
        # A resumed run has made its first batches at another time.
        end = time_left(self.batches, total, elapsed, before=self._first, word="at most")
        made = f"{counted(trainer.global_step, 'update')} in {duration(self.elapsed + elapsed)}"
        loss = f"loss {task.mean_loss:.3f}"
        return f"epoch {trainer.current_epoch + 1}  {made}  {loss}  {self.tokens_per_s:,.0f} tokens/s{end}"

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._since = time.perf_counter()
        metrics = trainer.callback_metrics
        scores = [f"{name} {float(metrics[name]):.2f}" for name in PERCENT if name in metrics]
        texts = [f"valid_loss {float(metrics[LOSS]):.3f}", *scores, f"{self.tokens_per_s:,.0f} tokens/s"]
        self.line.clear()
        print_message(f"epoch {trainer.current_epoch + 1}  {'  '.join(texts)}")

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.elapsed += self._lap()
        self._mark = time.perf_counter()
        self.line.clear()

    def on_exception(self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException) -> None:
        self.line.clear()
