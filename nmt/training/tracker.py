"""Experiment trackers beside the run's own logs: Weights & Biases, MLflow, or another Lightning logger."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pytorch_lightning.callbacks import ModelCheckpoint
from pytorch_lightning.loggers import Logger

from nmt.errors import UserError, reason
from nmt.files.atomic import write_lines
from nmt.files.reading import read_json
from nmt.settings.build import Block
from nmt.settings.plugins import PluginPoint, construct
from nmt.training.optional import optional

LOGGER = PluginPoint(
    Logger,
    ("pytorch_lightning.loggers",),
    supplied=frozenset({"id", "run_id"}),
    defaults=frozenset({"name", "run_name", "tracking_uri"}),
)
EXTRAS = {"WandbLogger": "wandb", "MLFlowLogger": "mlflow"}  # the extra of each class, named like its package
LOCAL_MLFLOW = "sqlite:///mlflow.db"  # MLflow's own default; Lightning's, a folder of files, is refused by MLflow
TRACKER_FILE = "logger.json"
IDENTIFIER = re.compile(r"[\w.-]{1,128}")


class Tracker(Logger):
    """Passes configuration, metrics and scores to a Lightning logger, until its first error: no log may stop a run."""

    def __init__(self, logger: Logger, place: str) -> None:
        super().__init__()
        self.logger = logger
        self.place = place
        self.started = self.failed = self.finished = False
        self.last_step: int | None = None

    @property
    def name(self) -> str:
        return self.place

    @property
    def version(self) -> str:
        return ""

    def start(self, settings: Mapping[str, Any], folder: Path, *, resumed: bool) -> None:
        """Send the configuration, and store the tracker's number of this run in ``folder``."""
        with self._optional():
            if not resumed:
                self.logger.log_hyperparams(dict(settings))
            identifier = str(self.logger.version)
            self.started = True
            write_lines(folder / TRACKER_FILE, [json.dumps({"logger": self.place, "id": identifier})])

    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Send the metrics of the update ``step``."""
        if self.started and not self.failed:
            self.last_step = step
            with self._optional():
                self.logger.log_metrics(dict(metrics), step)

    def log_summary(self, summary: Mapping[str, Any]) -> None:
        """Send the scores of the test set. The run has finished."""
        scores = {f"test_{name}": score for name, score in (summary["test"] or {}).items() if score is not None}
        if scores:
            self.log_metrics(scores, self.last_step)
        self.finished = True

    def log_hyperparams(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing: ``start`` sends the configuration."""

    def after_save_checkpoint(self, checkpoint_callback: ModelCheckpoint) -> None:
        if self.started and not self.failed:
            with self._optional():
                self.logger.after_save_checkpoint(checkpoint_callback)

    def finalize(self, status: str) -> None:
        """Do nothing: ``close`` ends the log, because the scores of the test set come after training."""

    def close(self) -> None:
        """End the log. Without this, the next run in this process would be logged as a part of this one."""
        if not self.started:
            return
        with self._optional():
            self.logger.finalize("success" if self.finished else "failed")
        finish = getattr(getattr(self.logger, "experiment", None), "finish", None)
        if callable(finish):  # Weights & Biases
            with self._optional():
                finish(exit_code=int(not self.finished))

    @contextmanager
    def _optional(self) -> Iterator[None]:
        """Turn an error of the block into a warning, after which nothing more is sent."""
        with optional(f"logger {self.place}"):
            try:
                yield
            except Exception:
                self.failed = True
                raise


@contextmanager
def open_tracker(block: Block | None, folder: Path, *, resume: bool, trust: Sequence[str]) -> Iterator[Tracker | None]:
    """Yield the tracker that the block describes, or None, and close it at the end.

    A resumed run continues in the log of its first start. Raises UserError if the logger refuses its settings.
    """
    if block is None:
        yield None
        return
    place = block["_target_"]
    identifier = _stored_identifier(folder / TRACKER_FILE, place) if resume else None
    supplied: dict[str, Any] = {"name": folder.name, "run_name": folder.name, "id": identifier, "run_id": identifier}
    # Not a key of the configuration, which people share: the address may hold a password.
    supplied["tracking_uri"] = os.environ.get("MLFLOW_TRACKING_URI", LOCAL_MLFLOW)
    try:
        logger = construct(block, LOGGER, trust=trust, **supplied)
    except UserError:
        raise
    except Exception as error:  # each tracker raises its own
        raise UserError(f"logger: {place} refuses its settings: {reason(error)}") from None
    tracker = Tracker(logger, place)
    try:
        yield tracker
    finally:
        tracker.close()


def _stored_identifier(file: Path, place: str) -> str | None:
    """Return the tracker's number of a run that is resumed, or None if it was not logged there."""
    try:
        stored = read_json(file)
        identifier = stored["id"] if stored["logger"] == place else None
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return identifier if isinstance(identifier, str) and IDENTIFIER.fullmatch(identifier) else None


def tracker_problems(block: Block) -> Iterator[str]:
    """Yield a message if the package of the logger is not installed."""
    extra = EXTRAS.get(block["_target_"].rpartition(".")[2])
    if extra is not None and find_spec(extra) is None:
        yield f"logger={extra}: needs the extra {extra}; in the clone: pip install '.[{extra}]'"
