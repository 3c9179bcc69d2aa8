"""Rewrite a graph so that the padding of a batch does not change the order in which its sums are computed.

Another order changes the last bit of a sum. Rounding to 8-bit integers can turn that into another translation.
Products with weights are left alone, because onnxruntime computes each of their rows alike in every batch.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper


def fix_summation_order(graph: onnx.GraphProto) -> None:
    """Rewrite float sums and products of two computed tensors in place."""
    values = {value.name: value.type.tensor_type for value in (*graph.value_info, *graph.input, *graph.output)}
    producers = {name: node for node in graph.node for name in node.output}
    weights = {weight.name: weight for weight in graph.initializer}
    nodes: list[NodeProto] = []
    for node in graph.node:
        if node.op_type == "ReduceSum" and values[node.input[0]].elem_type == TensorProto.FLOAT:
            nodes += _in_float64(node)
        elif node.op_type == "MatMul" and weights.keys().isdisjoint(node.input):
            if values[node.input[1]].shape.dim[-1].dim_value == 1:
                nodes += _in_float64(node)
                continue
            rank = len(values[node.input[0]].shape.dim)
            exchanged = [*range(rank - 2), rank - 1, rank - 2]
            columns = producers.get(node.input[1])
            if columns is not None and columns.op_type == "Transpose" and [*columns.attribute[0].ints] == exchanged:
                nodes += _exchanged(node, columns.input[0], exchanged)
            else:
                nodes += _with_another_row(node, rank)
                for name, constant in _row_constants(rank).items():
                    weights.setdefault(name, constant)
        else:
            nodes.append(node)
    # onnxruntime would still run the transpositions that nothing reads any more.
    used = {name for node in nodes for name in node.input} | {value.name for value in graph.output}
    initializers = list(weights.values())
    del graph.node[:], graph.initializer[:]
    graph.node.extend(node for node in nodes if used.intersection(node.output))
    graph.initializer.extend(initializers)


def _in_float64(node: NodeProto) -> Iterator[NodeProto]:
    """Yield a sum, or a product with one column, in float64: rounded to float32, it is the same in any order."""
    name = node.output[0]
    total = NodeProto()
    total.CopyFrom(node)
    for index, term in enumerate(node.input[: 1 if node.op_type == "ReduceSum" else 2]):
        total.input[index] = f"{name}.terms{index}"
        yield helper.make_node("Cast", [term], [total.input[index]], to=TensorProto.DOUBLE)
    total.output[0] = f"{name}.sum"
    yield total
    yield helper.make_node("Cast", [f"{name}.sum"], [name], to=TensorProto.FLOAT)


def _exchanged(node: NodeProto, right: str, order: list[int]) -> Iterator[NodeProto]:
    """Yield (right · leftᵀ)ᵀ instead of left · rightᵀ.

    onnxruntime splits a sum into parts whose size depends on the number of columns, but not on the number of rows.
    """
    left, name = node.input[0], node.output[0]
    yield helper.make_node("Transpose", [left], [f"{name}.left"], perm=order)
    yield helper.make_node("MatMul", [right, f"{name}.left"], [f"{name}.product"])
    yield helper.make_node("Transpose", [f"{name}.product"], [name], perm=order)


def _with_another_row(node: NodeProto, rank: int) -> Iterator[NodeProto]:
    """Yield the product with a row of zeros below its left factor, which is cut off again.

    onnxruntime multiplies a single row by another method, which adds the last one to three terms in another order.
    """
    (left, right), name = node.input, node.output[0]
    pads, start, end, axis = _row_constants(rank)
    yield helper.make_node("Pad", [left, pads], [f"{name}.rows"])
    yield helper.make_node("MatMul", [f"{name}.rows", right], [f"{name}.product"])
    yield helper.make_node("Slice", [f"{name}.product", start, end, axis], [name])


def _row_constants(rank: int) -> dict[str, TensorProto]:
    """Return how many rows to add to a tensor of this rank, and where the result is cut: start, end and axis."""
    pads = np.zeros(2 * rank, dtype=np.int64)
    pads[-2] = 1
    constants = {f"rows.pads{rank}": pads, "rows.start": [0], "rows.end": [-1], "rows.axis": [-2]}
    return {name: numpy_helper.from_array(np.array(value, dtype=np.int64), name) for name, value in constants.items()}
