"""Covariance attention that forgets: the general form of its gated update.

de Brébisson & Vincent (2016), A Cheap Linear Attention Mechanism with Fast Lookups and Fixed-Size
Representations, arXiv 1609.05866, §4.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, logsigmoid, pad

from nmt.attention.base import Memory
from nmt.attention.covariance import CovarianceAttention
from nmt.attention.decaying import DecayingAttention, Fade
from nmt.attention.scan import Tensors, scan


class GeneralCovarianceAttention(DecayingAttention, CovarianceAttention):
    """C_s = α_s C_{s−1} + β_s f_s f_sᵀ, read as C q_t (or, with ``mean``, as C q_t / S).

    α_s = σ(w_α h_s + b_α), β_s = σ(w_β h_s + b_β) and f_s = σ(W h_s + b) ∘ h_s. With ``recall`` each σ also sees what C
    already holds of h_s, r_s = C_{s−1} h_s, shortened to a norm below 1 lest it saturate them; a source is then
    written state after state. Without it, nothing depends on C, and C is a single matrix product.
    """

    def __init__(self, *, state_size: int, query_size: int, recall: bool = False, mean: bool = False) -> None:
        super().__init__(state_size=state_size, query_size=query_size, mean=mean)
        self.rank = state_size
        self.sequential = recall
        self.gates = nn.Linear(state_size, state_size + 2)  # of α, β and f, in one product
        nn.init.constant_(self.gates.bias[:1], 4.0)  # an untrained α of 0.98 remembers a sentence
        self.recalled = nn.Linear(state_size, state_size + 2, bias=False) if recall else None

    def values(self, states: Tensor) -> Tensor:
        """f (B, S, k)."""
        return self._gated(
            states, torch.ones_like(states[..., 0]), states.new_zeros(states.shape[0], self.rank, self.rank)
        )[2]

    def update(self, memory: Memory, states: Tensor, mask: Tensor) -> tuple[Fade, Tensor, Tensor]:
        log_alpha, beta, f = self._gated(states, mask.to(states.dtype), memory.slots)
        # At s: the sum of log α over all that comes after s; before the first: over all.
        after = pad(log_alpha.flip(1).cumsum(1).flip(1), (0, 1)).exp()
        weights = (after[:, 1:] * beta)[..., None] * f
        return lambda written: after[:, :1, None] * written, weights.transpose(1, 2), f

    def _gated(self, states: Tensor, real: Tensor, covariance: Tensor) -> Tensors:
        """log α (B, S), β (B, S) and f (B, S, k); padding neither fades nor writes anything."""
        scores = self.gates(states)
        if self.recalled is None or not states.shape[1]:
            return _open(scores, states, real)
        return scan(_step, covariance, (scores, states, real), (self.recalled.weight,))[1]


def _step(covariance: Tensor, now: Tensors, parameters: Tensors) -> tuple[Tensor, Tensors]:
    """C (B, k, k) after one more state; now: the scores of h (B, k + 2), h (B, k), 1 where it is real (B,)."""
    scores, h, real = now
    recalled = (covariance @ h[..., None])[..., 0]
    recalled = recalled / (1 + recalled.square().sum(1, keepdim=True)).sqrt()
    log_alpha, beta, f = _open(scores + linear(recalled, *parameters), h, real)
    kept = log_alpha.exp()[:, None, None] * covariance
    return kept + (beta[:, None] * f)[..., None] * f[:, None], (log_alpha, beta, f)


def _open(scores: Tensor, h: Tensor, real: Tensor) -> Tensors:
    """log α (…), β (…) and f (…, k) from scores (…, k + 2); ``real`` (…) is 1, or 0 at padding, where h is 0."""
    log_alpha = logsigmoid(scores[..., 0]) * real
    return log_alpha, torch.sigmoid(scores[..., 1]) * real, torch.sigmoid(scores[..., 2:]) * h
