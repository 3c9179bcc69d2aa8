"""Silence Lightning's messages about itself and its advice to programmers."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

ADVICE = (
    "The '.*dataloader' does not have many workers",  # a batch takes well under a millisecond
    "The number of training batches .* is smaller than the logging interval",
    ".*LeafSpec.* is deprecated",
    "Be aware that when using `ckpt_path`, callbacks",  # such as a Timer, which only limits one session
    "Checkpoint directory .* exists and is not empty",  # expected when resuming
    ".*lr_scheduler.step.* before .*optimizer.step",
)


@contextmanager
def without_advice() -> Iterator[None]:
    """Silence these messages while the block runs; other warnings are still shown."""
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
