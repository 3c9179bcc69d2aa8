"""Work that no test is about, and that would take a third of the time of all tests."""

from __future__ import annotations

import gc
import multiprocessing
import sys
from contextlib import suppress
from functools import cache

SERVER = multiprocessing.get_context("forkserver")  # one for all tests; it imports these once, for all its children
SERVER.set_forkserver_preload(
    ["pandas", "torch", "pytorch_lightning", "hydra", "onnxruntime", "nmt.training.run", "nmt.commands.train"]
)


def save_time() -> None:
    """Leave this work out. Call it when everything is imported, with the collection of garbage disabled until then."""
    gc.collect()
    gc.freeze()  # otherwise each full collection visits the million objects of torch again
    gc.enable()
    if report := sys.modules.get("nmt.training.report"):  # the pictures of a tiny run take longer than its training
        draw = dict.fromkeys(("draw_curves", "draw_heatmap"), lambda *_, **__: None)
        vars(report).update(PICTURES=1, save_figure=lambda _, file: file.touch(), **draw)
    if "nmt.inference.onnx.export" in sys.modules:
        with suppress(ImportError, AttributeError):  # private names of torch
            from torch.onnx._internal.exporter._registration import ONNXRegistry

            # Each of the four graphs of an export would build the same table, in a quarter of its time.
            ONNXRegistry.from_torchlib = staticmethod(cache(ONNXRegistry.from_torchlib))
            from torch._export import utils

            utils._materialize_cpp_cia_ops = cache(utils._materialize_cpp_cia_ops)  # 50 times for each graph
