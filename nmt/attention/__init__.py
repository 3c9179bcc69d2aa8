"""All classes defined in the files of this folder, imported when first used.

A new attention is one new file. It works without an edit here; only the list for type checkers names ours. ``import
nmt.attention`` does not import torch.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # for editors and type checkers; a test compares this list with the folder
    from nmt.attention.abc import AbcAttention as AbcAttention
    from nmt.attention.bahdanau import BahdanauAttention as BahdanauAttention
    from nmt.attention.covariance import CovarianceAttention as CovarianceAttention
    from nmt.attention.delta import DeltaAttention as DeltaAttention
    from nmt.attention.hashed import HashedAttention as HashedAttention
    from nmt.attention.kernel import KernelAttention as KernelAttention
    from nmt.attention.located_memory import LocatedMemoryAttention as LocatedMemoryAttention
    from nmt.attention.low_rank import LowRankAttention as LowRankAttention
    from nmt.attention.luong import LuongAttention as LuongAttention
    from nmt.attention.memory import MemoryAttention as MemoryAttention
    from nmt.attention.mesa import MesaAttention as MesaAttention
    from nmt.attention.multi_head import MultiHeadAttention as MultiHeadAttention
    from nmt.attention.nested_memory import NestedMemoryAttention as NestedMemoryAttention
    from nmt.attention.none import NoAttention as NoAttention
    from nmt.attention.sparse import SparseAttention as SparseAttention


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
