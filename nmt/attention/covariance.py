"""Linear attention through the (uncentred) covariance of the source states, plain or gated.

de Brébisson & Vincent (2016), A Cheap Linear Attention Mechanism with Fast Lookups and Fixed-Size
Representations, arXiv 1609.05866.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from nmt.attention.base import Attention, Memory, clear_padding


class CovarianceAttention(Attention):
    """The k × k matrix C = Σ_s h_s h_sᵀ of the source states, read as C q_t: attention without its softmax.

    Gated, C = Σ_s f_s f_sᵀ with f_s = σ(W h_s + b) ∘ h_s: a state can so keep itself out of the memory. C is
    the paper's sum, and grows with the source: with ``mean``, queries read C / S instead, the covariance proper, which
    trains at rates where the sum saturates the decoder. A query of another size is first projected to k.
    """

    signed = True

    def __init__(self, *, state_size: int, query_size: int, gated: bool = False, mean: bool = False) -> None:
        super().__init__()
        self.context_size = state_size
        self.mean = mean
        self.gate = nn.Linear(state_size, state_size) if gated else None
        self.project = nn.Linear(query_size, state_size, bias=False) if query_size != state_size else None

    def values(self, states: Tensor) -> Tensor:
        """f (B, S, k), or h itself without a gate."""
        return states if self.gate is None else torch.sigmoid(self.gate(states)) * states

    def write_terms(self, states: Tensor, mask: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
        """f_s is written under the key f_s, computed once; it is 0 where the state is."""
        values = self.values(clear_padding(states, mask))
        return values.transpose(1, 2), values

    def read_weights(self, query: Tensor, memory: Memory) -> Tensor:
        if self.project is not None:
            query = self.project(query)
        # The division is the query's, not the memory's: a source that goes on arriving changes it.
        return query / memory.length.clamp(min=1)[:, None, None].to(query.dtype) if self.mean else query
