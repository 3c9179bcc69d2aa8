"""The metrics of a run as one CSV file, which a resumed run continues."""

from __future__ import annotations

import csv
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytorch_lightning.loggers import Logger

from nmt.storage import write_lines

COLUMNS = ("step", "epoch", "train_loss", "valid_loss", "valid_accuracy", "valid_bleu", "valid_chrf", "lr")
METRICS_FILE = "metrics.csv"


class MetricsFile(Logger):
    """Appends one row per set of metrics; steps are updates, losses nats per piece, BLEU and chrF percent."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.path = folder / METRICS_FILE

    @property
    def name(self) -> str:
        return "metrics"

    @property
    def version(self) -> str:
        return ""

    def log_hyperparams(self, params: dict[str, Any] | Namespace, *args: Any, **kwargs: Any) -> None:
        """Do nothing: config.yaml has them."""

    def forget(self, step: int) -> None:
        """Drop the rows from update ``step`` on: a killed run repeats these updates when it is resumed."""
        if not self.path.exists():
            return
        with self.path.open(newline="", encoding="utf-8") as file:
            lines = file.read().splitlines()
        kept = [*lines[:1], *(row for row in lines[1:] if int(row.partition(",")[0]) < step)]
        if len(kept) < len(lines):
            write_lines(self.path, kept)

    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        row = {"step": step, **metrics}
        rates = [value for name, value in metrics.items() if name.startswith("lr-")]  # LearningRateMonitor's name
        if rates:
            row["lr"] = rates[0]
        known = {name: row[name] for name in COLUMNS if name in row}
        if known.keys() <= {"step", "epoch"}:
            return
        new = not self.path.exists()
        with self.path.open("a", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, COLUMNS)
            if new:
                writer.writeheader()
            writer.writerow(known)
