"""``without_advice`` silences Lightning inside its block only."""

from __future__ import annotations

import logging

import pytest

from nmt.training.logs import without_advice

pytestmark = pytest.mark.thorough


def test_log_level_is_restored_after_an_error() -> None:
    logger = logging.getLogger("pytorch_lightning")
    before = logger.level
    with pytest.raises(ValueError, match="no"), without_advice():
        assert logger.level == logging.ERROR != before
        raise ValueError("no")
    assert logger.level == before
