"""Rewrite a graph: fewer products, sums in a fixed order, and 8-bit integers for ``engine=onnx-int8``.

The padding of a batch must not change the order in which sums are computed. Another order changes the last bit of a
sum, and rounding to 8-bit integers can turn that into another translation. Products with weights are left alone,
because onnxruntime computes each of their rows alike in every batch.

Activations are rounded with a constant scale, or with one scale per row. One scale for the whole batch, as in
onnxruntime's ``DynamicQuantizeLinear``, would let the other lines of a batch change the translation of a line.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from nmt.inference.engines import OUTPUT_SCALE, OUTPUT_WEIGHT
from nmt.inference.onnx.shortlist import WEIGHT_STEPS, to_integers


def join_products(graph: onnx.GraphProto) -> None:
    """Compute x (A B) in place of (x A) B, for weights A and B, unless A B is larger than both together."""
    weights = {weight.name: weight for weight in graph.initializer if len(weight.dims) == 2}
    products = {node.output[0]: node for node in graph.node if node.op_type == "MatMul" and node.input[1] in weights}
    for second in products.values():
        first = products.get(second.input[0])
        if first is None:
            continue
        left, right = (numpy_helper.to_array(weights[node.input[1]]).astype(float) for node in (first, second))
        if len(left) * right.shape[1] <= left.size + right.size:
            joint = f"{first.input[1]} {second.input[1]}"
            weights[joint] = numpy_helper.from_array((left @ right).astype(np.float32), joint)
            graph.initializer.append(weights[joint])
            second.input[:] = [first.input[0], joint]


def replace_nodes(graph: onnx.GraphProto, nodes: Sequence[NodeProto], weights: Iterable[TensorProto]) -> None:
    """Give the graph those of these nodes and weights that its outputs depend on."""
    kept = needed(nodes, (value.name for value in graph.output))
    used = {name for node in kept for name in inputs_of(node)}
    initializers = [weight for weight in weights if weight.name in used]
    del graph.node[:], graph.initializer[:]
    graph.node.extend(kept)
    graph.initializer.extend(initializers)


def needed(nodes: Sequence[NodeProto], results: Iterable[str]) -> list[NodeProto]:
    """Return the nodes that the results depend on. onnxruntime would still run some of the others."""
    names = {*results}
    kept = []
    for node in reversed(nodes):
        if names.intersection(node.output):
            kept.append(node)
            names |= inputs_of(node)
    return kept[::-1]


def inputs_of(node: NodeProto) -> set[str]:
    """Return the names of all values that a node reads, also in its own graphs."""
    return {*node.input}.union(*(inputs_of(inner) for attribute in node.attribute for inner in attribute.g.node))


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
            if values[node.input[0]].shape.dim[-2].dim_value == 1:  # one row in every batch
                nodes.append(node)
                continue
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
    replace_nodes(graph, nodes, weights.values())


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
    left = node.input[0]
    name = node.output[0]
    yield helper.make_node("Transpose", [left], [f"{name}.left"], perm=order)
    yield helper.make_node("MatMul", [right, f"{name}.left"], [f"{name}.product"])
    yield helper.make_node("Transpose", [f"{name}.product"], [name], perm=order)


def _with_another_row(node: NodeProto, rank: int) -> Iterator[NodeProto]:
    """Yield the product with a row of zeros below its left factor, which is cut off again.

    onnxruntime multiplies a single row by another method, which adds the terms in another order.
    """
    left, right = node.input
    name = node.output[0]
    pads, start, end, axis = _row_constants(rank)
    yield helper.make_node("Pad", [left, pads], [f"{name}.rows"])
    yield helper.make_node("MatMul", [f"{name}.rows", right], [f"{name}.product"])
    yield helper.make_node("Slice", [f"{name}.product", start, end, axis], [name])


def _row_constants(rank: int) -> dict[str, TensorProto]:
    """Return the constants for a tensor of this rank: the rows to add, and start, end and axis of the cut after it."""
    pads = np.zeros(2 * rank, dtype=np.int64)
    pads[-2] = 1
    constants = {f"rows.pads{rank}": pads, "rows.start": [0], "rows.end": [-1], "rows.axis": [-2]}
    return {name: numpy_helper.from_array(np.array(value, dtype=np.int64), name) for name, value in constants.items()}


MICROSOFT = "com.microsoft"  # onnxruntime's own operators
STEPS = 127  # rounded activations lie in 1 to 255 and mean (x − 128) / 127
ZERO = 128
TABLES = ("embedding.weight", "table", "output.weight")
"""Ends of the names of tables whose rows are read: embeddings, embeddings times weights, and tied embeddings."""
COPIES = {"Expand", "Gather", "GatherND", "Identity", "Reshape", "Slice", "Split", "Squeeze", "Transpose", "Unsqueeze"}
"""Operators whose outputs hold numbers of their first input only."""


def quantise(exact: onnx.ModelProto, bounded_inputs: Collection[str], *, lstms: bool = False) -> onnx.ModelProto:
    """Return a copy of the graph ``exact`` that multiplies by weights in 8-bit integers.

    The weights have one scale per column and lie in ±``WEIGHT_STEPS``. ``bounded_inputs`` are the inputs of the graph
    whose numbers lie in [−1, 1]. Without ``lstms``, the weights of LSTMs stay as they are. The input ``output.weight``
    (C, F) of a step with a shortlist becomes one of integers (F, C), and ``output.weight.scale`` (C,) is added.
    """
    model = onnx.ModelProto()
    model.CopyFrom(exact)
    graph = _Graph(model, bounded_inputs, lstms=lstms)
    nodes = [new for node in model.graph.node for new in graph.quantised(node)]
    inputs = [new for value in model.graph.input for new in _integer_inputs(value)]
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    replace_nodes(model.graph, nodes, [*model.graph.initializer, *graph.added])
    model.opset_import.append(helper.make_opsetid(MICROSOFT, 1))
    return model


def bounded_outputs(model: onnx.ModelProto) -> set[str]:
    """Return the outputs of an exact graph whose numbers certainly lie in [−1, 1]."""
    graph = _Graph(model, ())
    return {value.name for value in model.graph.output if graph.is_bounded(value.name)}


class _Graph:
    """Writes the nodes of a quantised graph, and collects the constants that they need."""

    def __init__(self, model: onnx.ModelProto, bounded_inputs: Collection[str], *, lstms: bool = False) -> None:
        self.model, self.lstms = model, lstms
        self.weights = {weight.name: numpy_helper.to_array(weight) for weight in model.graph.initializer}
        self.producers = {name: node for node in model.graph.node for name in node.output}
        self.bounded_inputs = bounded_inputs
        self.added: list[onnx.TensorProto] = []
        self.scale = self._constant("activation.scale", np.array(1 / STEPS, dtype=np.float32))
        self.zero = self._constant("activation.zero", np.array(ZERO, dtype=np.uint8))
        self.last_axis = self._constant("activation.axis", np.array([-1]))

    def quantised(self, node: NodeProto) -> Iterator[NodeProto]:
        """Yield the nodes that replace ``node``: the node itself if it has no weights, or is recurrent."""
        if node.op_type == "LSTM" and self.lstms:
            yield self._lstm(node)
        elif node.op_type in ("MatMul", "Gemm") and self._is_weight(node.input[1]):
            yield from self._product(node)
        elif node.op_type == "Gather" and node.input[0].endswith(TABLES) and self._is_weight(node.input[0]):
            yield from self._rows(node)
        else:
            yield node

    def _is_weight(self, name: str) -> bool:
        return name == OUTPUT_WEIGHT or (name in self.weights and self.weights[name].ndim == 2)

    def is_bounded(self, name: str) -> bool:
        """Return whether all numbers of a value certainly lie in [−1, 1]."""
        if name in self.weights:
            return self.weights[name].size == 1 and bool(np.abs(self.weights[name]) <= 1)
        node = self.producers.get(name)
        if node is None:
            return name in self.bounded_inputs
        if node.op_type in ("LSTM", "GRU"):
            return name in node.output[:2]  # the third output is the cell
        if node.op_type in COPIES:
            return self.is_bounded(node.input[0])
        if node.op_type == "MatMul":  # averages; a last bit beyond 1 is lost in integers
            return self._has_weights(node.input[0]) and self.is_bounded(node.input[1])
        if node.op_type in ("Concat", "Mul", "Where"):
            return all(map(self.is_bounded, node.input[node.op_type == "Where" :]))
        return node.op_type in ("Sigmoid", "Softmax", "Tanh")

    def _has_weights(self, name: str, axis: int = -1) -> bool:
        """Return whether no number of a value is negative, and no sum along this axis is above 1."""
        node = self.producers.get(name)
        if node is None:
            return False
        if node.op_type == "Pad":  # another row of zeros
            return self._has_weights(node.input[0], axis)
        if node.op_type == "Transpose":
            return self._has_weights(node.input[0], node.attribute[0].ints[axis])
        if node.op_type == "Where":
            others = [value for value in node.input[1:] if np.any(self.weights.get(value, 1))]  # zeros are padding
            return len(others) == 1 and self._has_weights(others[0], axis)
        own_axis = node.attribute[0].i if node.attribute else -1
        return node.op_type == "Softmax" and (axis - own_axis) % self._ranks[name] == 0

    @cached_property
    def _ranks(self) -> dict[str, int]:
        """The number of axes of each value."""
        graph = onnx.shape_inference.infer_shapes(self.model).graph
        return {value.name: len(value.type.tensor_type.shape.dim) for value in (*graph.value_info, *graph.output)}

    def _product(self, node: NodeProto) -> Iterator[NodeProto]:
        source = node.input[0]
        output = node.output[0]
        options = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
        assert not options.get("transA") and options.get("alpha", 1) == options.get("beta", 1) == 1
        weight = self.weights.get(node.input[1])
        if weight is None:  # of a shortlist
            assert options.get("transB")
            values, scales = OUTPUT_WEIGHT, OUTPUT_SCALE
        else:
            values, scales = self._integers(f"{output}.weight", weight.T if options.get("transB") else weight)
        bias = node.input[2] if len(node.input) > 2 else ""
        rows = ""
        if not self.is_bounded(source):
            yield helper.make_node("Abs", [source], [f"{output}.sizes"])
            rows = f"{output}.rows"  # of a row of zeros, 0: its quotients, NaN, become integers that this 0 multiplies
            yield helper.make_node("ReduceMax", [f"{output}.sizes", self.last_axis], [rows], keepdims=1)
            yield helper.make_node("Div", [source, rows], [f"{output}.bounded"])
            source = f"{output}.bounded"
        # A bias that is computed is a matrix, which the product cannot add.
        fused_bias = bias if not rows and (bias in self.weights or weight is None) else ""
        steps = [("Mul", rows)] if rows else []
        steps += [("Add", bias)] if bias and not fused_bias else []
        names = [*(f"{output}.{operator}" for operator, _ in steps), output]
        yield helper.make_node("QuantizeLinear", [source, self.scale, self.zero], [f"{output}.integers"])
        inputs = [f"{output}.integers", values, self.scale, scales, self.zero, "", fused_bias]
        yield helper.make_node("MatMulIntegerToFloat", inputs, [names[0]], domain=MICROSOFT)
        for (operator, value), before, after in zip(steps, names, names[1:], strict=False):
            yield helper.make_node(operator, [before, value], [after])

    def _rows(self, node: NodeProto) -> Iterator[NodeProto]:
        """Yield a row of a table in 8-bit integers, with one scale per column."""
        output = node.output[0]
        values, scales = self._integers(f"{output}.table", self.weights[node.input[0]], steps=STEPS)
        yield helper.make_node("Gather", [values, node.input[1]], [f"{output}.integers"], axis=0)
        # DequantizeLinear with a scale per column computes the same, but takes up to ten times as long.
        yield helper.make_node("Cast", [f"{output}.integers"], [f"{output}.unscaled"], to=TensorProto.FLOAT)
        yield helper.make_node("Mul", [f"{output}.unscaled", scales], [output])

    def _lstm(self, node: NodeProto) -> NodeProto:
        """Return an 8-bit LSTM. It rounds by the range of the batch, which ``OnnxRecurrentEncoder`` keeps constant."""
        source, *weights = node.input[:3]
        scales = []
        zeros = []
        for at, name in enumerate(weights):
            values = self.weights[name].transpose(0, 2, 1)
            weights[at], scale = self._integers(f"{node.output[0]}.weight{at}", values)
            zero = np.zeros((values.shape[0], values.shape[2]), dtype=np.int8)
            scales.append(scale)
            zeros.append(self._constant(f"{weights[at]}.zero", zero))
        others = [*node.input[3:], *[""] * (8 - len(node.input))]
        inputs = [source, *weights, *others, scales[0], zeros[0], scales[1], zeros[1]]
        lstm = helper.make_node("DynamicQuantizeLSTM", inputs, node.output, domain=MICROSOFT)
        lstm.attribute.extend(node.attribute)
        return lstm

    def _integers(self, name: str, weight: np.ndarray, *, steps: int = WEIGHT_STEPS) -> tuple[str, str]:
        """Add a weight (…, X, Y) as integers and its scales (…, Y); return the names of both."""
        integers, scales = to_integers(weight, axis=-2, steps=steps)
        return self._constant(name, integers), self._constant(f"{name}.scale", scales)

    def _constant(self, name: str, value: np.ndarray) -> str:
        self.added.append(numpy_helper.from_array(np.asarray(value, order="C"), name))
        return name


def _integer_inputs(value: ValueInfoProto) -> Iterator[ValueInfoProto]:
    """Yield the inputs that replace an input of the exact graph."""
    if value.name != OUTPUT_WEIGHT:
        yield value
        return
    rows, columns = (dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim)
    yield helper.make_tensor_value_info(OUTPUT_WEIGHT, TensorProto.INT8, [columns, rows])
    yield helper.make_tensor_value_info(OUTPUT_SCALE, TensorProto.FLOAT, [rows])
