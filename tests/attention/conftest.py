"""Chooses slow laws."""

from __future__ import annotations

import pytest

# Heads of any kind run the same code, so CI tests the laws for heads of these kinds; -m slow tests all others.
HEADS = tuple(f"multi_head of {stem}" for stem in ("scaled_dot", "bahdanau", "covariance", "memory"))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        stem = getattr(item, "callspec", None) and item.callspec.params.get("stem")
        if isinstance(stem, str) and stem.startswith("multi_head of ") and stem not in HEADS:
            item.add_marker(pytest.mark.slow)
