"""Dotted names from a configuration, turned into classes, from trusted packages only."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from nmt.errors import UserError


def locate(target: str, *, trust: Sequence[str] = ()) -> type[Any]:
    """The class that ``target`` names, such as ``nmt.attention.MemoryAttention``.

    A configuration may come with a stranger's checkpoint, and importing runs code; so only ``nmt`` and the packages in
    ``trust`` are imported. Raises UserError for any other package, or where there is no such class.
    """
    module, _, name = target.rpartition(".")
    package = target.partition(".")[0]
    if package != "nmt" and package not in trust:
        raise UserError(
            f"_target_={target}: package {package!r} is not trusted; if you trust it, add trust=[{package}]"
        )
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise UserError(f"_target_={target}: no such class ({error}); is the package installed?") from None
    if not isinstance(found, type):
        raise UserError(f"_target_={target}: not a class")
    return found


def setting(block: Mapping[str, Any], key: str, *, trust: Sequence[str] = ()) -> Any:
    """What ``block`` says of ``key``, or its class's default; None where the class knows no such key."""
    if key in block:
        return block[key]
    known = inspect.signature(locate(block["_target_"], trust=trust)).parameters
    return known[key].default if key in known else None
