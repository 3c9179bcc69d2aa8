"""Additive attention.

Bahdanau, Cho & Bengio (2015), Neural Machine Translation by Jointly Learning to Align and Translate,
arXiv 1409.0473.
"""

from __future__ import annotations

from torch import Tensor, nn

from nmt.attention.base import Memory, SourceAttention
from nmt.kernels.additive import additive_scores
from nmt.settings.arguments import Size


class BahdanauAttention(SourceAttention):
    """Additive attention: score(q_t, h_s) = vᵀ tanh(W q_t + U h_s), then a softmax over s (§3.1, appendix A.1.2).

    In the paper the query is the decoder state before the step. Here the decoder chooses its query.
    """

    def __init__(self, *, state_size: Size, query_size: Size, attention_size: Size = 256) -> None:
        super().__init__()
        self.context_size = state_size
        self.W = nn.Linear(query_size, attention_size, bias=False)
        self.U = nn.Linear(state_size, attention_size, bias=False)
        self.v = nn.Linear(attention_size, 1, bias=False)

    def keys(self, memory: Memory) -> Tensor:
        """Return U h_s (B, S, A), which all queries share (appendix A.1.2)."""
        return self.U(memory.slots)  # type: ignore[no-any-return]

    def scores(self, query: Tensor, memory: Memory) -> Tensor:
        assert memory.keys is not None
        return additive_scores(self.v, self.W(query), memory.keys)
