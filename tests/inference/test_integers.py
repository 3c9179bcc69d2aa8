"""Weights as integers."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, parser
from onnx.reference import ReferenceEvaluator

from nmt.inference.onnx.rewrites import bounded_outputs
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


@pytest.mark.parametrize(
    ("nodes", "bounded"),
    [
        ("w = Softmax (scores) v = Tanh (values) y = MatMul (w, v)", True),
        ("w = Softmax <axis = 2> (scores) v = Tanh (values) p = Pad (w, pads) y = MatMul (p, v)", True),
        ("w = Softmax <axis = 1> (scores) v = Tanh (values) y = MatMul (w, v)", False),
        ("w = Sigmoid (scores) v = Tanh (values) y = MatMul (w, v)", False),
        ("w = Softmax (scores) y = MatMul (w, values)", False),
        ("w = Softmax (scores) v = Tanh (values) y = MatMul (v, w)", False),
    ],
)
def test_bounded_numbers(nodes: str, bounded: bool) -> None:
    signature = "(float[2,4,4] scores, float[2,4,4] values) => (float[n,a,b] y)"
    constant = "pads = Constant <value_ints = [0, 0, 0, 0, 1, 0]> ()"
    graph = parser.parse_graph(f"g {signature} {{{constant} {nodes}}}")
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    onnx.checker.check_model(model)
    assert bounded_outputs(model) == ({"y"} if bounded else set())
    rng = np.random.default_rng(0)
    inputs = {name: 9 * rng.standard_normal((2, 4, 4)).astype(np.float32) for name in ("scores", "values")}
    [result] = ReferenceEvaluator(model).run(None, inputs)
    assert (np.abs(result).max() <= 1.000001) == bounded
