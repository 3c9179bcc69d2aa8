"""Code with a misspelt setting. mypy reads this file: an error that it no longer finds is an unused ignore comment."""

from __future__ import annotations

from nmt.training.settings import Train


def right(config: Train) -> int | None:
    return config.training.max_epochs


def misspelt(config: Train) -> object:
    return config.training.max_epoch  # type: ignore[attr-defined]
