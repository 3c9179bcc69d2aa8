"""Types of settings in words: ``Annotated[int, AtLeast(1)] | None`` is "whole number ≥ 1, or null"."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import suppress
from dataclasses import is_dataclass
from importlib import import_module
from types import NoneType, SimpleNamespace, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

from nmt.settings.arguments import Above, AtLeast, AtMost, Below
from nmt.settings.plugins import Plugin

WORDS = {int: "whole number", float: "number", bool: "`true` | `false`", str: "text"}


def block_types(kind: Any, target: str) -> dict[str, Any]:
    """Return the type of each key of a block whose ``_target_`` is ``target``."""
    module, _, name = target.rpartition(".")
    function = getattr(import_module(module), name)
    hints = _argument_types(inspect.unwrap(function.__init__ if isinstance(function, type) else function))
    optional = [part for part in get_args(kind) if get_origin(part) is Annotated]  # Annotated[Any, Plugin(…)] | None
    notes = [
        note for part in (kind, *optional) for note in getattr(part, "__metadata__", ()) if isinstance(note, Plugin)
    ]
    for plugin in notes:
        hints |= plugin.bounds
        if plugin.shared is not None:
            hints |= plugin.shared.shared_keys()
    names = inspect.signature(function).parameters
    return {name: hint for name, hint in hints.items() if name in names or any(note.shared for note in notes)}


def _argument_types(function: Any) -> dict[str, Any]:
    """Return the type of each argument, except those whose types are imported under TYPE_CHECKING only."""
    types: dict[str, Any] = {}
    for name, annotation in function.__annotations__.items():
        holder = SimpleNamespace(__annotations__={name: annotation})
        with suppress(NameError):
            types |= get_type_hints(holder, function.__globals__, include_extras=True)
    return types


def is_group(kind: Any) -> bool:
    """Return whether values of this type are groups of named keys."""
    return is_dataclass(kind) or is_typeddict(kind)


def members(kind: Any) -> dict[str, Any]:
    """Return the type of each key of a group, which may also be null."""
    kind = next((part for part in get_args(kind) if is_group(part)), kind)
    return get_type_hints(kind, include_extras=True)


def describe(kind: Any) -> str:
    """Return the type in words, with its bounds."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return " ".join([describe(parts[0]), *_bounds(parts[1:])])
    if origin in (Union, UnionType):
        words = [describe(part) for part in parts if part is not NoneType]
        return ", or ".join([*words, *(["`null`"] if NoneType in parts else [])])
    if origin is Literal:
        return " | ".join(f"`{choice}`" for choice in parts)
    if origin is list:
        words = describe(parts[0])
        return f"list of {words}s" if words.isalpha() else f"list: {words}"
    if origin is tuple:
        return f"list of {len(parts)}: {describe(parts[0])}"
    if origin is Callable:
        return "settings of another block"
    return WORDS.get(kind, "")


def _bounds(notes: tuple[Any, ...]) -> list[str]:
    """Return the bounds as inequalities; a single text for both ends of an interval."""
    words = []
    for note in notes:
        match note:
            case AtLeast(limit=low):
                words.append(f"≥ {low:g}")
            case Above(limit=low):
                words.append(f"> {low:g}")
            case AtMost(limit=high):
                words.append(f"≤ {high:,.10g}")
            case Below(limit=high):
                words.append(f"< {high:g}")
    return [" and ".join(words)] if words else []
