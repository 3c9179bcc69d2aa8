"""Weights as integers."""

from __future__ import annotations

import numpy as np
import pytest

from nmt.inference.onnx.shortlist import to_integers


@pytest.mark.parametrize("axis", [0, 1])
def test_integers_times_scales_are_the_weight_up_to_half_a_step(axis: int) -> None:
    weight = np.random.default_rng(0).standard_normal((7, 5)).astype(np.float32)
    weight[2], weight[:, 3] = 0, 0
    integers, scales = to_integers(weight, axis=axis, steps=64)
    assert integers.dtype == np.int8 and scales.dtype == np.float32 and scales.shape == (weight.shape[1 - axis],)
    assert np.abs(integers).max() == 64
    errors = np.abs(integers * np.expand_dims(scales, axis) - weight)
    assert (errors <= np.expand_dims(scales, axis) * 0.5001).all()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_scales_show_a_weight_that_is_not_finite(value: float) -> None:
    weight = np.ones((2, 3), dtype=np.float32)
    weight[1, 2] = value
    _, scales = to_integers(weight, axis=1)
    assert np.isfinite(scales).tolist() == [True, False]
