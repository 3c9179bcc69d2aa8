"""Names of the files and graph outputs of an exported model."""

from __future__ import annotations

from typing import Literal

FOLDER = "onnx"  # in a run's folder
FORMAT = 3
ABOUT = "about.json"
SHORTLIST = "shortlist.npz"
Precision = Literal["onnx", "onnx-int8"]
GRAPH_SUFFIX: dict[Precision, str] = {"onnx": "", "onnx-int8": ".int8"}
"""The suffix of the graphs' file names for each engine."""
NEXT = ".after"
"""The step graph appends this to the name of a state field when it returns the next state."""
