"""File names of an exported model, its format version, and names of inputs and outputs of its graphs."""

from __future__ import annotations

FOLDER = "onnx"  # inside a run's folder
FORMAT = 5
ABOUT = "about.json"
SHORTLIST = "shortlist.npz"
NEXT = ".after"
"""The step graph appends this to the name of a state field when it returns the next state."""
# Inputs of a step graph with a shortlist: the output layer for the C target pieces of a batch, with F features.
OUTPUT_WEIGHT = "output.weight"  # (C, F), or 8-bit integers (F, C)
OUTPUT_SCALE = "output.weight.scale"  # (C,) of these integers
OUTPUT_BIAS = "output.bias"  # (C,)
