"""A lower bound of running time: the products of given shapes, each at the best rate of several libraries."""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnxruntime
import torch
from onnxruntime.quantization import QuantType, quantize_dynamic

FLOAT_METHODS = ("linear", "transposed", "onnx")
BFLOAT16_METHODS = ("bfloat16",)


class Product(NamedTuple):
    """A matrix product (rows × width) · (width × height), ``count`` times."""

    rows: int
    width: int
    height: int
    count: float


def floor(products: Sequence[Product], methods: Sequence[str]) -> float:
    """Return the seconds of all products, each by the fastest of the ``methods`` for its shape.

    linear: torch's x @ wᵀ, also in bfloat16; transposed: torch's w @ xᵀ; onnx, onnx-int8: onnxruntime.
    """
    return sum(count * min(product_seconds(method, *shape) for method in methods) for *shape, count in products)


def product_seconds(method: str, rows: int, width: int, height: int) -> float:
    """Return the seconds of one product, the best of many runs."""
    x, w = torch.randn(rows, width), torch.randn(height, width)
    if method == "linear":
        return best_seconds(lambda: torch.nn.functional.linear(x, w))
    if method == "bfloat16":
        low_x, low_w = x.bfloat16(), w.bfloat16()
        return best_seconds(lambda: torch.nn.functional.linear(low_x, low_w))
    if method == "transposed":
        transposed = x.t().contiguous()
        return best_seconds(lambda: w @ transposed)
    session = _onnx_product(w.t().numpy(), method == "onnx-int8")
    inputs = {"x": x.numpy()}
    return best_seconds(lambda: session.run(None, inputs))


def _onnx_product(weight: np.ndarray, integers: bool) -> onnxruntime.InferenceSession:
    """Return an onnxruntime session that multiplies its input x by the weight, in 8-bit ``integers`` if asked."""
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "product",
        [helper.make_tensor_value_info("x", kind, [None, weight.shape[0]])],
        [helper.make_tensor_value_info("y", kind, None)],
        [onnx.numpy_helper.from_array(np.ascontiguousarray(weight), "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 3
    if not integers:
        return onnxruntime.InferenceSession(model.SerializeToString(), options)
    with tempfile.TemporaryDirectory() as folder:
        float_file, integer_file = Path(folder) / "float.onnx", Path(folder) / "integer.onnx"
        onnx.save(model, float_file)
        logging.disable(logging.WARNING)  # the quantiser logs advice for its developers
        quantize_dynamic(float_file, integer_file, weight_type=QuantType.QInt8, per_channel=True)
        logging.disable(logging.NOTSET)
        return onnxruntime.InferenceSession(str(integer_file), options)


def best_seconds(run: Callable[[], Any]) -> float:
    """Return the least seconds of at least 5 runs in at least 0.3 s."""
    with torch.no_grad():
        seconds, started = [], time.perf_counter()
        while len(seconds) < 5 or time.perf_counter() - started < 0.3:
            before = time.perf_counter()
            run()
            seconds.append(time.perf_counter() - before)
    return min(seconds)
