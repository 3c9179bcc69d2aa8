"""Names of the engines that can run a trained model, and the graph files that the ONNX engines read."""

from __future__ import annotations

from typing import Literal

OnnxEngineName = Literal["onnx", "onnx-int8"]
EngineName = Literal["auto", "torch", OnnxEngineName]
"""``auto`` selects the first engine of ``GRAPH_SUFFIX`` that the model's folder has graphs for, otherwise torch."""

GRAPH_SUFFIX: dict[OnnxEngineName, str] = {"onnx": "", "onnx-int8": ".int8"}
"""The suffix of each ONNX engine's graph files. The exact engine comes first: rounding to integers is a choice."""
