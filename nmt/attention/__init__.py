"""Every class that a file of this folder defines, found when its name is first used.

So a new attention is one new file, with no list to edit here, and ``import nmt.attention`` alone imports no
torch.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules


@cache
def _classes() -> dict[str, type]:
    modules = [import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__)]
    return {
        name: found
        for module in modules
        for name, found in vars(module).items()
        if isinstance(found, type) and found.__module__ == module.__name__
    }


def __getattr__(name: str) -> type:
    if name[:1].isupper() and name in _classes():
        return _classes()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_classes()])
