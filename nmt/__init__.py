"""Sequence-to-sequence translation with memory-based attention."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nmt.api import Translator as Translator
    from nmt.api import train as train

__version__ = "0.1.0"
__all__ = ["Translator", "__version__", "train"]


def __getattr__(name: str) -> Any:
    # Imported on first use: `import nmt` and `nmt-… --help` must not wait for torch.
    if name in ("Translator", "train"):
        return getattr(import_module("nmt.api"), name)
    raise AttributeError(f"module 'nmt' has no attribute {name!r}")
