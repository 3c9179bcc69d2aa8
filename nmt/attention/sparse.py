"""Attention to the few source states with the highest scores.

Zhao et al. (2019), Explicit Sparse Transformer: Concentrated Attention Through Explicit Selection, arXiv 1912.11637.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import pad

from nmt.attention.base import Memory
from nmt.attention.luong import LuongAttention
from nmt.settings.arguments import Size


class SparseAttention(LuongAttention):
    """Luong's attention with a softmax over the ``keep`` highest scores only (eqs. 6, 7).

    As in the paper, all scores that tie with the lowest of them are kept.
    """

    def __init__(
        self,
        *,
        state_size: Size,
        query_size: Size,
        score: Literal["dot", "general", "concat"] = "general",
        keep: Size = 8,
    ) -> None:
        super().__init__(state_size=state_size, query_size=query_size, score=score)
        self.keep = keep

    def masked_scores(self, query: Tensor, memory: Memory) -> Tensor:
        scores = super().masked_scores(query, memory)
        lowest = torch.finfo(scores.dtype).min
        # Padding to at least ``keep`` scores makes topk work for any S, in an exported graph too.
        highest = pad(scores, (0, self.keep), value=lowest).topk(self.keep, dim=2).values
        return scores.masked_fill(scores < highest[..., -1:], lowest)
