"""The shapes of the learning rate, at the updates where they turn."""

from __future__ import annotations

import pytest

from nmt.training.schedules import inverse_sqrt, linear, warm_up


def test_every_schedule_warms_up_linearly_to_the_base_rate() -> None:
    for shape in (warm_up(10), inverse_sqrt(10), linear(10, 100)):
        assert [shape(step) for step in (0, 4, 9)] == pytest.approx([0.1, 0.5, 1.0])


def test_without_warm_up_the_base_rate_comes_first() -> None:
    for shape in (warm_up(0), inverse_sqrt(0), linear(0, 100)):
        assert shape(0) == 1.0


def test_after_the_warm_up() -> None:
    assert warm_up(10)(1000) == 1.0
    assert inverse_sqrt(10)(39) == pytest.approx(0.5)  # four times the warm-up: half the rate
    half = linear(10, 110)
    assert [half(step) for step in (10, 60, 110, 500)] == pytest.approx([1.0, 0.5, 0.0, 0.0])


def test_a_run_shorter_than_its_warm_up_ends_at_zero_all_the_same() -> None:
    assert 0.0 <= linear(10, 5)(5) <= linear(10, 5)(3) <= 1.0
