"""Attention to the source, one file per paper.

A new attention is one new file and one YAML, whose ``_target_`` names the module. It works without an edit here.
"""

from __future__ import annotations

from nmt.attention.abc import AbcAttention
from nmt.attention.bahdanau import BahdanauAttention
from nmt.attention.covariance import CovarianceAttention
from nmt.attention.delta import DeltaAttention
from nmt.attention.hashed import HashedAttention
from nmt.attention.kernel import KernelAttention
from nmt.attention.located_memory import LocatedMemoryAttention
from nmt.attention.low_rank import LowRankAttention
from nmt.attention.luong import LuongAttention
from nmt.attention.memory import MemoryAttention
from nmt.attention.mesa import MesaAttention
from nmt.attention.multi_head import MultiHeadAttention
from nmt.attention.nested_memory import NestedMemoryAttention
from nmt.attention.none import NoAttention
from nmt.attention.sparse import SparseAttention
from nmt.attention.stretch_memory import StretchMemoryAttention

__all__ = [
    "AbcAttention",
    "BahdanauAttention",
    "CovarianceAttention",
    "DeltaAttention",
    "HashedAttention",
    "KernelAttention",
    "LocatedMemoryAttention",
    "LowRankAttention",
    "LuongAttention",
    "MemoryAttention",
    "MesaAttention",
    "MultiHeadAttention",
    "NestedMemoryAttention",
    "NoAttention",
    "SparseAttention",
    "StretchMemoryAttention",
]
