"""Names of the files that hold the model of a run. Imports no torch."""

from __future__ import annotations

from pathlib import Path

from nmt.inference.onnx.layout import MODEL

ADAPTER = "adapter.safetensors"  # low-rank updates of the model of another run


def has_adapter(folder: Path) -> bool:
    """Return whether the folder holds an adapter and no complete model."""
    return (folder / ADAPTER).is_file() and not (folder / MODEL).is_file()
