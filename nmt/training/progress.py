"""Progress shown while a model trains."""

from __future__ import annotations

import sys
import time
from typing import IO, Any, cast

import pytorch_lightning as pl
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from nmt.errors import counted
from nmt.system.progress import Minutes, duration, time_left
from nmt.text.batches import Batch
from nmt.training.optional import UnfailingStream


class LiveProgress(pl.Callback):
    """One line per validation. On a terminal also a bar with loss, speed and time left, elsewhere a line per minute."""

    def __init__(self) -> None:
        # A notebook would show each line as an HTML block; other messages are plain text on stderr.
        self.console = Console(file=cast(IO[str], UnfailingStream(sys.stderr)), force_jupyter=False)
        self.bar: Progress | None = None
        self.batches = 0  # since the start of the run; a resumed run estimates it from its updates
        self.tokens = 0
        self.seconds = 0.0  # in training steps only
        self.elapsed = 0.0  # seconds in total, validation included
        self._since = self._mark = 0.0
        self._minutes = Minutes()
        self._first = 0  # batches before this session

    @property
    def tokens_per_s(self) -> float:
        """Target pieces per second of training, without validation."""
        return self.tokens / self.seconds if self.seconds else 0.0

    def state_dict(self) -> dict[str, Any]:
        """Return the counts from which a resumed run continues."""
        return {"tokens": self.tokens, "seconds": self.seconds, "elapsed": self.elapsed + self._lap()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.tokens, self.seconds, self.elapsed = state["tokens"], state["seconds"], state["elapsed"]

    def _lap(self) -> float:
        return time.perf_counter() - self._mark

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        # Lightning does not call on_train_epoch_start for a resumed epoch.
        self._mark = self._since = time.perf_counter()
        self._minutes = Minutes()
        self._first = self.batches = trainer.global_step * trainer.accumulate_grad_batches
        if not self.console.is_terminal:
            return
        self.bar = Progress(
            TextColumn("epoch {task.fields[epoch]}"),
            BarColumn(),
            TextColumn("{task.fields[numbers]}"),
            TimeElapsedColumn(),
            TextColumn("left at most"),
            TimeRemainingColumn(),
            console=self.console,
            transient=True,
        )
        total, epoch = _most_batches(trainer, pl_module), trainer.current_epoch + 1
        self.task = self.bar.add_task("training", total=total, completed=self.batches, epoch=epoch, numbers="")
        self.bar.start()

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
        if self.bar is not None:
            numbers = self._numbers(pl_module)
            self.bar.update(self.task, advance=1, epoch=trainer.current_epoch + 1, numbers=numbers)
        elif self._minutes.is_due():
            self._print_line(trainer, pl_module)

    def _numbers(self, task: Any) -> str:
        """Return the mean loss since the last point of the learning curve, and the speed."""
        return f"loss {task.interval.means['train_loss']:.3f}  {self.tokens_per_s:,.0f} tokens/s"

    def _print_line(self, trainer: pl.Trainer, task: pl.LightningModule) -> None:
        """Print progress to a log file."""
        total, elapsed = _most_batches(trainer, task), self._minutes.elapsed
        text = f"epoch {trainer.current_epoch + 1}  {counted(trainer.global_step, 'update')} in {duration(elapsed)}"
        # A resumed run has made its first batches at another time.
        end = time_left(self.batches, total, elapsed, before=self._first, word="at most")
        self.console.print(f"{text}  {self._numbers(task)}{end}", highlight=False, soft_wrap=True)

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._since = time.perf_counter()
        if trainer.sanity_checking:
            return
        metrics = trainer.callback_metrics
        parts = [f"{name} {float(metrics[name]):.2f}" for name in ("valid_bleu", "valid_chrf") if name in metrics]
        loss = f"valid_loss {float(metrics['valid_loss']):.3f}"
        self.console.print(
            f"epoch {trainer.current_epoch + 1}  {loss}  {'  '.join(parts)}  {self.tokens_per_s:,.0f} tokens/s",
            highlight=False,
            soft_wrap=True,  # do not break lines in log files
        )

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.elapsed += self._lap()
        self._mark = time.perf_counter()
        self._stop()

    def on_exception(self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException) -> None:
        self._stop()

    def _stop(self) -> None:
        if self.bar is not None:
            self.bar.stop()
            self.bar = None


def _most_batches(trainer: pl.Trainer, task: pl.LightningModule) -> int | None:
    """Return the number of batches after which the run ends at the latest; None without such a limit."""
    settings: Any = task.settings
    epochs, steps = settings.max_epochs, settings.max_steps
    by_epochs = None if epochs is None else epochs * trainer.datamodule.batches_per_epoch()  # type: ignore[attr-defined]
    by_steps = None if steps is None else steps * trainer.accumulate_grad_batches
    return min((limit for limit in (by_epochs, by_steps) if limit is not None), default=None)
