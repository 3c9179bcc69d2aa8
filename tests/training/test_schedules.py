"""Learning-rate factors at the updates where a schedule changes direction."""

from __future__ import annotations

import pytest

from nmt.training.schedules import inverse_sqrt, linear, warm_up


def test_every_schedule_warms_up_linearly_to_the_base_rate() -> None:
    for factor in (warm_up(10), inverse_sqrt(10), linear(10, 100)):
        assert [factor(step) for step in (0, 4, 9)] == pytest.approx([0.1, 0.5, 1.0])


def test_without_warm_up_the_first_rate_is_the_base_rate() -> None:
    for factor in (warm_up(0), inverse_sqrt(0), linear(0, 100)):
        assert factor(0) == 1.0


def test_rates_after_the_warm_up() -> None:
    assert warm_up(10)(1000) == 1.0
    assert inverse_sqrt(10)(39) == pytest.approx(0.5)  # four times the warm-up: half the rate
    factor = linear(10, 110)
    assert [factor(step) for step in (10, 60, 110, 500)] == pytest.approx([1.0, 0.5, 0.0, 0.0])


def test_linear_rate_falls_even_if_the_run_is_shorter_than_the_warm_up() -> None:
    assert 0.0 <= linear(10, 5)(5) <= linear(10, 5)(3) <= 1.0
