"""Fixtures of the tests of the fast paths."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from nmt import kernels
from nmt.kernels import operators, products

CHECKS = (operators.can_multiply, operators.can_pack, operators.can_differentiate)


@pytest.fixture(autouse=True)
def onednn_computes_small_products(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use oneDNN for the small tensors of these tests too."""
    monkeypatch.setattr(products, "LEAST_MULTIPLICATIONS", 0)


@pytest.fixture
def fast_paths() -> None:
    """Skip a test of how a fast path works if NMT_KERNELS=off. Tests of what it computes run in any case."""
    if not kernels.enabled():
        pytest.skip("NMT_KERNELS=off")


@pytest.fixture
def unchecked_operators() -> Iterator[None]:
    """Forget the checks of the private operators, before the test and after it."""
    for check in CHECKS:
        check.cache_clear()
    yield
    for check in CHECKS:
        check.cache_clear()
