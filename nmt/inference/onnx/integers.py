"""Weights as integers, for ``engine=onnx-int8``."""

from __future__ import annotations

import numpy as np

# Weights use 7 bits: processors with AVX2 but without integer dot products add pairs of products in 16 bits, where two
# products of 255 · 127 would saturate. No loss of accuracy was measured (benchmarks/integers.py).
WEIGHT_STEPS = 64


def to_integers(weight: np.ndarray, *, axis: int, steps: int = WEIGHT_STEPS) -> tuple[np.ndarray, np.ndarray]:
    """Return a weight as integers in ±``steps``, and their scales, which have no ``axis``.

    Integers times scales are about the weight. Scales of weights that are not finite are not finite either.
    """
    largest = np.abs(weight).max(axis=axis)
    scales = np.where(largest == 0, 1, largest).astype(np.float32) / np.float32(steps)
    with np.errstate(invalid="ignore"):
        integers = np.rint(weight / np.expand_dims(scales, axis)).astype(np.int8)
    return integers, scales
