"""File names of an exported model, its format version, and names of graph outputs."""

from __future__ import annotations

FOLDER = "onnx"  # inside a run's folder
FORMAT = 5
ABOUT = "about.json"
SHORTLIST = "shortlist.npz"
NEXT = ".after"
"""The step graph appends this to the name of a state field when it returns the next state."""
