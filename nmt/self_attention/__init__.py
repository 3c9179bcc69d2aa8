"""Self-attention of the Transformer, one file per paper: parallel over a sequence, or step by step."""

from __future__ import annotations

from nmt.attention.kernel import FeatureMap
from nmt.self_attention.base import SelfAttention
from nmt.self_attention.hashed import HashedSelfAttention
from nmt.self_attention.linear import LinearSelfAttention
from nmt.self_attention.low_rank import LowRankSelfAttention
from nmt.self_attention.pooled import PooledSelfAttention
from nmt.self_attention.softmax import SoftmaxSelfAttention
from nmt.self_attention.strided import StridedSelfAttention
from nmt.self_attention.window import WindowSelfAttention

__all__ = [
    "FeatureMap",
    "HashedSelfAttention",
    "LinearSelfAttention",
    "LowRankSelfAttention",
    "PooledSelfAttention",
    "SelfAttention",
    "SoftmaxSelfAttention",
    "StridedSelfAttention",
    "WindowSelfAttention",
]
