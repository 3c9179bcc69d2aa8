"""How long plain products of given shapes take at best: no model is faster, unless it multiplies less."""

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

from nmt.kernels.products import linear, multiply, pack_weight

FLOAT_WAYS = ("linear", "product", "onednn", "onnx")
BFLOAT16_WAYS = ("bfloat16",)


class Product(NamedTuple):
    """(rows × width) · (width × height), ``count`` times."""

    rows: int
    width: int
    height: int
    count: float


def floor(products: Sequence[Product], ways: Sequence[str]) -> float:
    """Seconds that all products take, each at the best rate of the ``ways`` to multiply its shape.

    linear: torch's x @ wᵀ; product: torch's w @ xᵀ; onednn: ``nmt.kernels.products``; onnx, onnx-int8: onnxruntime;
    bfloat16: ``nmt.kernels.products`` in that precision, the weight laid out before.
    """
    return sum(count * min(once(way, *shape) for way in ways) for *shape, count in products)


def once(way: str, rows: int, width: int, height: int) -> float:
    """Seconds of one product, the best of many."""
    x, w = torch.randn(rows, width), torch.randn(height, width)
    if way == "linear":
        return best(lambda: torch.nn.functional.linear(x, w))
    if way == "onednn":
        return best(lambda: linear(x, w))
    if way == "bfloat16":
        rough, laid_out = x.bfloat16(), pack_weight(w.bfloat16(), rows)
        return best(lambda: multiply(rough, laid_out))
    if way == "product":
        turned = x.t().contiguous()
        return best(lambda: w @ turned)
    session = _product(w.t().numpy(), way == "onnx-int8")
    given = {"x": x.numpy()}
    return best(lambda: session.run(None, given))


def _product(weight: np.ndarray, integers: bool) -> onnxruntime.InferenceSession:
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
        exact, file = Path(folder) / "exact.onnx", Path(folder) / "integers.onnx"
        onnx.save(model, exact)
        logging.disable(logging.WARNING)  # advice for developers
        quantize_dynamic(exact, file, weight_type=QuantType.QInt8, per_channel=True)
        logging.disable(logging.NOTSET)
        return onnxruntime.InferenceSession(str(file), options)


def best(run: Callable[[], Any]) -> float:
    """The least seconds of many runs."""
    with torch.no_grad():
        found, started = [], time.perf_counter()
        while len(found) < 5 or time.perf_counter() - started < 0.3:
            before = time.perf_counter()
            run()
            found.append(time.perf_counter() - before)
    return min(found)
