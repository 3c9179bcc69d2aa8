"""The metrics of a run: a CSV file, which a resumed run continues, and event files for TensorBoard."""

from __future__ import annotations

import csv
import io
from abc import abstractmethod
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytorch_lightning.loggers import Logger
from torch.utils.tensorboard import SummaryWriter

from nmt.errors import reason
from nmt.files.atomic import open_own, write_lines
from nmt.inference.run_files import METRICS_FILE
from nmt.training.checkpoints import deleted_run
from nmt.training.optional import optional, warn

COLUMNS = ("step", "epoch", "train_loss", "valid_loss", "valid_accuracy", "valid_bleu", "valid_chrf", "lr")
HEADER = ",".join(COLUMNS)


class MetricsLogger(Logger):
    """A Lightning logger that warns at its first error: no log may stop a run, unless the run's folder is gone."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.failed = False

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def version(self) -> str:
        return ""

    def log_hyperparams(self, params: dict[str, Any] | Namespace, *args: Any, **kwargs: Any) -> None:
        """Do nothing: config.yaml has them."""

    @abstractmethod
    def write(self, metrics: Mapping[str, float], step: int | None) -> None:
        """Write one set of metrics. May raise any exception."""

    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        try:
            self.write(metrics, step)
        except Exception as error:  # TensorBoard's writer raises its own
            if not self.path.parent.is_dir():
                raise deleted_run(self.path.parent) from None
            if not self.failed:
                warn(f"{self.path}: cannot write metrics: {reason(error)}")
            self.failed = True


class MetricsFile(MetricsLogger):
    """Appends one row per set of metrics; steps are updates, losses nats per piece, BLEU and chrF percent."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / METRICS_FILE)

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
        row = {"step": step, **metrics}
        rates = [value for name, value in metrics.items() if name.startswith("lr-")]  # LearningRateMonitor's name
        if rates:
            row["lr"] = rates[0]
        known = {name: row[name] for name in COLUMNS if name in row}
        if known.keys() <= {"step", "epoch"}:
            return
        new = not self.path.exists()
        with io.TextIOWrapper(open_own(self.path, append=True), encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            if new:
                writer.writeheader()
            writer.writerow(known)


class TensorBoardFiles(MetricsLogger):
    """Writes every metric for TensorBoard."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "tensorboard")
        self.writer: SummaryWriter | None = None

    def write(self, metrics: Mapping[str, float], step: int | None) -> None:
        if self.writer is None:
            self.writer = SummaryWriter(str(self.path))
        for name, value in metrics.items():
            self.writer.add_scalar(name, value, step)

    def finalize(self, status: str) -> None:
        if self.writer is not None:
            with optional(str(self.path)):
                self.writer.close()


def read_rows(path: Path) -> tuple[list[list[str]], int]:
    """Return the intact rows of a metrics file, each with one text per column, and the number of damaged lines.

    An intact row ends with a line break and has all columns. Its step is a whole number from 0 to 2⁶³ - 1, and its
    other columns have numbers or nothing.
    """
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    torn = bool(lines.pop())  # the last line has no line break
    rows = [line.removesuffix("\r").split(",") for line in lines if line.removesuffix("\r") != HEADER]
    intact = [row for row in rows if _is_intact(row)]
    return intact, len(rows) - len(intact) + torn


def _is_intact(row: list[str]) -> bool:
    try:
        step = int(row[0])
        [float(value) for value in row[1:] if value]
    except ValueError:
        return False
    return len(row) == len(COLUMNS) and 0 <= step < 1 << 63
