"""Rewritten graphs compute the same."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper, parser
from onnx.reference import ReferenceEvaluator

from nmt.inference.onnx.rewrites import join_products, quantise, simplify_shapes


def model_of(
    text: str, inputs: dict[str, list[str | int]], outputs: list[str], weights: dict[str, np.ndarray]
) -> onnx.ModelProto:
    graph = parser.parse_graph(f"test () => () {{{text}}}")
    graph.input.extend(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items())
    graph.output.extend(helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs)
    graph.initializer.extend(numpy_helper.from_array(weight, name) for name, weight in weights.items())
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])


def operators(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


@pytest.mark.parametrize(
    ("sizes", "outputs", "count"),
    [
        ((4, 4, 4), ["z"], 1),
        ((6, 4, 3), ["z"], 1),
        ((6, 2, 6), ["z"], 2),  # the joint matrix has 36 numbers, both together 24
        ((4, 4, 4), ["y", "z"], 2),  # the first product is read elsewhere
    ],
)
def test_two_products_are_joined_if_that_costs_less(
    sizes: tuple[int, int, int], outputs: list[str], count: int
) -> None:
    rng = np.random.default_rng(1)
    weights = {
        name: rng.normal(size=pair).astype(np.float32) for name, pair in zip("AB", (sizes[:2], sizes[1:]), strict=True)
    }
    model = model_of("y = MatMul (x, A) z = MatMul (y, B)", {"x": ["n", sizes[0]]}, outputs, weights)
    x = rng.normal(size=(3, sizes[0])).astype(np.float32)
    expected = ReferenceEvaluator(model).run(None, {"x": x})
    join_products(model.graph)
    for result, value in zip(ReferenceEvaluator(model).run(None, {"x": x}), expected, strict=True):
        np.testing.assert_allclose(result, value, rtol=1e-5, atol=1e-6)
    simplify_shapes(model)  # removes what nothing reads
    assert operators(model).count("MatMul") == count


SPLIT = """
    b = Shape <start = 0, end = 1> (x)
    n = Shape <start = 1, end = 2> (x)
    shape = Concat <axis = 0> (b, n, heads, size)
    split = Reshape <allowzero = 1> (x, shape)
    moved = Transpose <perm = [0, 2, 1, 3]> (split)
    rows = Mul (b, heads)
    flat = Concat <axis = 0> (rows, n, size)
    y = Reshape <allowzero = 1> (moved, flat)
"""


@pytest.mark.parametrize("shape", [(1, 1, 6), (2, 5, 6), (7, 3, 6)])
def test_simpler_shapes_are_the_same(shape: tuple[int, ...]) -> None:
    model = model_of(SPLIT, {"x": ["b", "n", 6]}, ["y"], {"heads": np.array([2]), "size": np.array([3])})
    x = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    expected = ReferenceEvaluator(model).run(None, {"x": x})[0]
    simplify_shapes(model)
    assert np.array_equal(ReferenceEvaluator(model).run(None, {"x": x})[0], expected)
    assert "Mul" not in operators(model)
    assert operators(model).count("Shape") == 1  # n of the second shape, which is not in its place


def test_integers_of_rows_of_zeros_and_of_tiny_numbers() -> None:
    rng = np.random.default_rng(1)
    weight = rng.normal(size=(32, 9)).astype(np.float32)
    x = rng.normal(size=(4, 32)).astype(np.float32)
    x[1] = 0
    x[2] *= 1e-42
    model = model_of("y = MatMul (x, A)", {"x": ["n", 32]}, ["y"], {"A": weight})
    model.ir_version = 10  # onnxruntime reads no newer one
    session = onnxruntime.InferenceSession(quantise(model, ()).SerializeToString(), providers=["CPUExecutionProvider"])
    [result] = session.run(None, {"x": x})
    assert not result[1].any()
    np.testing.assert_allclose(result, x @ weight, atol=0.2)
    assert np.abs(result[2]).max() < 1e-40
