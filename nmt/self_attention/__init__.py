"""Self-attention of the Transformer, by a softmax or by feature maps: parallel over a sequence, or step by step."""

from __future__ import annotations

from typing import Literal

from nmt.attention.kernel import FeatureMap
from nmt.self_attention.base import SelfAttention
from nmt.self_attention.linear import LinearSelfAttention
from nmt.self_attention.softmax import SoftmaxSelfAttention

Kind = Literal["softmax", "linear"]

__all__ = ["FeatureMap", "Kind", "LinearSelfAttention", "SelfAttention", "SoftmaxSelfAttention", "self_attention"]


def self_attention(kind: Kind, *, size: int, heads: int, feature_map: FeatureMap) -> SelfAttention:
    """Return a new self-attention; only ``linear`` uses the feature map."""
    if kind == "softmax":
        return SoftmaxSelfAttention(size=size, heads=heads)
    return LinearSelfAttention(size=size, heads=heads, feature_map=feature_map)
