"""Apply a function to all tensors of a nested named tuple, such as a memory or a decoder state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor


def map_tensors(function: Callable[[Tensor], Tensor], fields: Any) -> Any:
    """Return the (named) tuple with ``function`` applied to each of its tensors. None stays None."""
    if isinstance(fields, tuple):
        mapped = [map_tensors(function, field) for field in fields]
        return fields._make(mapped) if hasattr(fields, "_make") else tuple(mapped)
    return fields if fields is None else function(fields)
