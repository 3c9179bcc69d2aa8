"""Reports of a run while it trains: progress, metrics.csv and the logger of the user."""

from __future__ import annotations

import csv
import logging
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.loggers import Logger, TensorBoardLogger
from tqdm import tqdm

from nmt.errors import UserError, print_message, reason
from nmt.files.atomic import write_lines
from nmt.inference.run_files import METRICS_FILE
from nmt.settings.plugins import Block, PluginPoint, construct
from nmt.text.batches import Batch
from nmt.training.metrics import COLUMNS, LOSS, PERCENT, read_rows

LOGGER = PluginPoint(
    Logger,
    ("pytorch_lightning.loggers", "nmt.training.logs"),
    supplied=frozenset({"folder"}),
    defaults=frozenset({"name"}),
)
# Lightning's messages about itself, and its advice to programmers.
ADVICE = (
    "The '.*dataloader' does not have many workers",  # a batch takes well under a millisecond
    "The number of training batches .* is smaller than the logging interval",
    ".*LeafSpec.* is deprecated",
    "You're resuming from a checkpoint that ended before the epoch ended",  # CorpusBatches skips what was read
    "Be aware that when using `ckpt_path`, callbacks",  # such as a Timer, which only limits one session
    "Checkpoint directory .* exists and is not empty",
    ".*lr_scheduler.step.* before .*optimizer.step",
    "RNN module weights are not part of single contiguous chunk",  # cuDNN copies the weights of a single layer
)


def warn(message: str) -> None:
    print_message(f"warning: {message}")


@contextmanager
def optional(what: str) -> Iterator[None]:
    """Turn any error of the block into a warning: a picture that cannot be drawn must not end a run."""
    try:
        yield
    except Exception as error:  # the libraries that draw raise their own
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


class MetricsFile(Logger):
    """Appends one row per set of metrics; steps are updates, losses nats per piece, BLEU and chrF percent.

    Lightning's CSVLogger deletes the file of a resumed run.
    """

    name = version = None

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.path = folder / METRICS_FILE

    def forget(self, step: int) -> None:
        """Drop the rows from update ``step`` on, which a resumed run repeats."""
        if self.path.exists():
            kept = [",".join(row.values()) for row in read_rows(self.path) if int(row["step"]) < step]
            write_lines(self.path, [",".join(COLUMNS), *kept])

    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        rates = [value for name, value in metrics.items() if name.startswith("lr-")]  # LearningRateMonitor's name
        row = {"step": step, **metrics, **({"lr": rates[0]} if rates else {})}
        if row.keys() & {*COLUMNS} <= {"step", "epoch"}:
            return
        with self.path.open("a", encoding="utf-8", newline="") as file:
            header = [COLUMNS] if file.tell() == 0 else []
            csv.writer(file, lineterminator="\n").writerows([*header, [row.get(name) for name in COLUMNS]])

    def log_hyperparams(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing: config.yaml has them."""


class TensorBoard(TensorBoardLogger):
    """Writes the curves of a run into its folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "tensorboard", "")


def build_logger(block: Block | None, folder: Path, *, trust: Sequence[str]) -> Logger | None:
    """Return the logger that the block describes, or None. Raises UserError if it refuses its settings."""
    if block is None:
        return None
    try:
        logger: Logger = construct(block, LOGGER, trust=trust, name=folder.name, folder=folder)
    except Exception as error:  # each logger raises its own, also if its package is not installed
        raise UserError(f"logger: {block['_target_']} refuses its settings: {reason(error)}") from None
    return logger


def finish(logger: Logger, summary: Mapping[str, Any], step: int) -> None:
    """Send the scores of the test set, and end the log, so that the next run in this process has its own."""
    scores = {f"test_{name}": score for name, score in (summary["test"] or {}).items() if score is not None}
    if scores:
        logger.log_metrics(scores, step)
    logger.finalize("success")
    end = getattr(getattr(logger, "experiment", None), "finish", None)
    if callable(end):  # Weights & Biases
        end()


class Progress(pl.Callback):
    """Prints one line per validation, and between them a bar with the loss and the time left.

    Counts the target tokens, the seconds of training steps and, in ``elapsed``, all seconds, over all sessions.
    """

    def __init__(self) -> None:
        self.tokens = 0
        self.seconds = 0.0
        self.elapsed = 0.0
        self._since = self._mark = 0.0
        self._bar: tqdm[Any] = tqdm(disable=True)

    @property
    def tokens_per_s(self) -> float:
        """Target tokens per second of training, without validation."""
        return self.tokens / self.seconds if self.seconds else 0.0

    def state_dict(self) -> dict[str, Any]:
        elapsed = self.elapsed + time.perf_counter() - self._mark
        return {"tokens": self.tokens, "seconds": self.seconds, "elapsed": elapsed}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        vars(self).update(state_dict)

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        # Lightning does not call on_train_epoch_start for a resumed epoch.
        self._mark = self._since = time.perf_counter()
        total = trainer.datamodule.total_updates()  # type: ignore[attr-defined]
        self._bar = tqdm(total=total, initial=trainer.global_step, unit=" updates", disable=None, leave=False)

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._since = time.perf_counter()

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Batch, batch_idx: int
    ) -> None:
        now = time.perf_counter()
        self.seconds += now - self._since
        self._since = now
        self.tokens += int(pl_module.target_pieces)  # type: ignore[arg-type]
        if not self._bar.disable:
            text = (
                f"epoch {trainer.current_epoch + 1}, loss {pl_module.mean_loss:.3f}, {self.tokens_per_s:,.0f} tokens/s"
            )
            self._bar.set_postfix_str(text, refresh=False)
            self._bar.update(trainer.global_step - self._bar.n)

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._since = time.perf_counter()
        metrics = trainer.callback_metrics
        scores = [f"{name} {float(metrics[name]):.2f}" for name in PERCENT if name in metrics]
        texts = [f"valid_loss {float(metrics[LOSS]):.3f}", *scores, f"{self.tokens_per_s:,.0f} tokens/s"]
        with tqdm.external_write_mode():
            print_message(f"epoch {trainer.current_epoch + 1}  {'  '.join(texts)}")

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        now = time.perf_counter()
        self.elapsed += now - self._mark
        self._mark = now
        self._bar.close()

    def on_exception(self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException) -> None:
        self._bar.close()
