"""Linear attention by the (uncentred) covariance of the source states, plain or gated.

de Brébisson & Vincent (2016), A Cheap Linear Attention Mechanism with Fast Lookups and Fixed-Size
Representations, arXiv 1609.05866.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from nmt.attention.base import Attention, Memory, clear_padding
from nmt.settings.arguments import Size


class CovarianceAttention(Attention):
    """Attention without a softmax: queries read C q_t from the k × k matrix C = Σ_s h_s h_sᵀ of the source states.

    With ``gated``, C = Σ_s f_s f_sᵀ and f_s = σ(W h_s + b) ∘ h_s: a gate scales each number of a state first.
    The paper's C is a sum that grows with the source and saturates the decoder at high learning rates. With ``mean``,
    queries read the covariance C / S instead. A query whose size is not k is first projected to k.
    """

    signed = True

    def __init__(self, *, state_size: Size, query_size: Size, gated: bool = False, mean: bool = True) -> None:
        super().__init__()
        self.context_size = state_size
        self.mean = mean
        self.gate = nn.Linear(state_size, state_size) if gated else None
        self.project = nn.Linear(query_size, state_size, bias=False) if query_size != state_size else None

    def values(self, states: Tensor) -> Tensor:
        """Return f (B, S, k): the gated states, or the states themselves if there is no gate."""
        return states if self.gate is None else torch.sigmoid(self.gate(states)) * states

    def write_terms(self, states: Tensor, mask: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
        """Return f as keys (B, k, S) and as values (B, S, k), computed once. A state of zeros gives f = 0."""
        values = self.values(clear_padding(states, mask))
        return values.transpose(1, 2), values

    def read_weights(self, query: Tensor, memory: Memory) -> Tensor:
        if self.project is not None:
            query = self.project(query)
        # Dividing the query rather than the memory keeps ``append`` a sum: S changes with every part.
        return query / memory.length.clamp(min=1)[:, None, None].to(query.dtype) if self.mean else query
