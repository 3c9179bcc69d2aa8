"""All classes defined in the files of this folder, imported when first used.

A new attention is one new file: no list here needs an edit. ``import nmt.attention`` does not import torch.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules


@cache
def _classes() -> dict[str, type]:
    """Import every module of this folder and return the classes they define, by name."""
    modules = [import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__)]
    return {
        name: value
        for module in modules
        for name, value in vars(module).items()
        if isinstance(value, type) and value.__module__ == module.__name__
    }


def __getattr__(name: str) -> type:
    if name[:1].isupper() and name in _classes():
        return _classes()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_classes()])
