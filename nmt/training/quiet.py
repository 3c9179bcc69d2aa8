"""Keep what Lightning says about itself, and its advice to programmers, away from people who train models."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

ADVICE = (
    "The '.*dataloader' does not have many workers",  # batches are made in well under a millisecond
    "The number of training batches .* is smaller than the logging interval",
    ".*LeafSpec.* is deprecated",
    "Checkpoint directory .* exists and is not empty",  # so it is, on resume
    ".*lr_scheduler.step.* before .*optimizer.step",
)


@contextmanager
def without_advice() -> Iterator[None]:
    """Silence it for as long as the block runs; warnings of any other kind still show."""
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
