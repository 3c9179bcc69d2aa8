"""Sequence-to-sequence translation with memory-based attention."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nmt.api import Translator as Translator

__version__ = "0.1.0"
__all__ = ["Translator", "__version__"]


def __getattr__(name: str) -> Any:
    # Imported on first use: `import nmt` and `nmt-… --help` must not wait for torch.
    if name == "Translator":
        from nmt.api import Translator

        return Translator
    raise AttributeError(f"module 'nmt' has no attribute {name!r}")
