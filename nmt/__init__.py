"""Sequence-to-sequence translation with memory-based attention."""

from __future__ import annotations

from nmt.version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:  # the programs import this file before they handle signals, so it imports almost nothing
    from typing import Any

    from nmt.api import Translator as Translator
    from nmt.api import train as train

__all__ = ["Translator", "__version__", "train"]


def __getattr__(name: str) -> Any:
    # Imported on first use: `import nmt` and `nmt-… --help` must not wait for torch.
    if name in ("Translator", "train"):
        from importlib import import_module

        return getattr(import_module("nmt.api"), name)
    raise AttributeError(f"module 'nmt' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})  # for completion in notebooks, before the first use of a name
