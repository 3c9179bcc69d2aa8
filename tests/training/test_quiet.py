"""Lightning is quiet for the length of a block, and no longer."""

from __future__ import annotations

import logging

import pytest

from nmt.training.quiet import without_advice


def test_lightning_speaks_again_after_an_error() -> None:
    logger = logging.getLogger("pytorch_lightning")
    before = logger.level
    with pytest.raises(ValueError, match="no"), without_advice():
        assert logger.level == logging.ERROR != before
        raise ValueError("no")
    assert logger.level == before
