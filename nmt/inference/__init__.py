"""Use a trained model: load its folder, choose an engine, translate, force-decode, and store encoded lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nmt.inference.columns import Translate as Translate

__all__ = ["Translate"]


def __getattr__(name: str) -> Any:
    # Imported on first use, so that the rest of the package loads without it.
    if name == "Translate":
        from nmt.inference.columns import Translate

        return Translate
    raise AttributeError(f"module 'nmt.inference' has no attribute {name!r}")
