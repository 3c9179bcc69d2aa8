"""Rewrite a graph so that the padding of a batch does not change the order in which its sums are computed.

Another order changes the last bit of a sum. Rounding to 8-bit integers can turn that into another translation.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx
from onnx import NodeProto, TensorProto, helper


def fix_summation_order(graph: onnx.GraphProto) -> None:
    """Rewrite float sums over source positions, and products whose columns are source positions, in place."""
    values = {value.name: value.type.tensor_type for value in (*graph.value_info, *graph.input, *graph.output)}
    producers = {name: node for node in graph.node for name in node.output}
    weights = {weight.name for weight in graph.initializer}
    nodes: list[NodeProto] = []
    for node in graph.node:
        if node.op_type == "ReduceSum" and values[node.input[0]].elem_type == TensorProto.FLOAT:
            nodes += _sum_in_float64(node)
            continue
        columns = producers.get(node.input[1]) if node.op_type == "MatMul" else None
        if columns is None or columns.op_type != "Transpose" or columns.input[0] in weights:
            nodes.append(node)
            continue
        order = list(columns.attribute[0].ints)
        *batch, row, column = range(len(order))
        same_rank = len(values[node.input[0]].shape.dim) == len(order)
        nodes += _exchanged(node, columns.input[0], order) if same_rank and order == [*batch, column, row] else [node]
    # onnxruntime would still run the transpositions that nothing reads any more.
    used = {name for node in nodes for name in node.input} | {value.name for value in graph.output}
    del graph.node[:]
    graph.node.extend(node for node in nodes if used.intersection(node.output))


def _sum_in_float64(node: NodeProto) -> Iterator[NodeProto]:
    """Yield a sum in float64: rounded to float32, it is the same in any order."""
    name = node.output[0]
    total = NodeProto()
    total.CopyFrom(node)
    total.input[0], total.output[0] = f"{name}.terms", f"{name}.sum"
    yield helper.make_node("Cast", [node.input[0]], [f"{name}.terms"], to=TensorProto.DOUBLE)
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
