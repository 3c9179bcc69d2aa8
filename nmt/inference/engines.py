"""Names of the engines that can run a trained model, and the graph files that the ONNX engines read."""

from __future__ import annotations

from typing import Literal

OnnxEngineName = Literal["onnx", "onnx-int8"]
EngineName = Literal["auto", "torch", OnnxEngineName]
"""``auto`` selects the fastest engine that the model's folder offers."""

GRAPH_SUFFIX: dict[OnnxEngineName, str] = {"onnx-int8": ".int8", "onnx": ""}
"""The suffix of each ONNX engine's graph files. The fastest engine comes first; torch is slower than all of them."""
