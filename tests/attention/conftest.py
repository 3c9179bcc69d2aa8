"""Chooses slow laws."""

from __future__ import annotations

import pytest

# Heads of any kind run the same code, so CI tests the laws for heads of these kinds; -m slow tests all others.
HEADS = ("multi_head of bahdanau", "multi_head of memory")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for name in item.callspec.params.values() if hasattr(item, "callspec") else ():
            if isinstance(name, str) and name.startswith("multi_head of ") and name not in HEADS:
                item.add_marker(pytest.mark.slow)
