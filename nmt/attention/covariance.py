"""Linear attention by the (uncentred) covariance of the source states, plain, gated, or with earlier states that decay.

de Brébisson & Vincent (2016), A Cheap Linear Attention Mechanism with Fast Lookups and Fixed-Size
Representations, arXiv 1609.05866.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid, pad

from nmt.attention.base import Attention, Memory, Update, project
from nmt.settings.arguments import Size


class CovarianceAttention(Attention):
    """Attention without a softmax: queries read C q_t from the k × k covariance C of the source states.

    gate: null   C = Σ_s h_s h_sᵀ                                                       (§3)
    gate: value  C = Σ_s f_s f_sᵀ with f_s = σ(W h_s + b) ∘ h_s                         (§4)
    gate: all    C_s = α_s C_{s−1} + β_s f_s f_sᵀ, where α_s and β_s are σ(w h_s + b)   (§4, the general form)

    With ``recall`` each σ of ``gate: all`` also gets r_s = C_{s−1} x_s, scaled to a norm below 1 so that it cannot
    saturate the gates. x_s is h_s (``state``), or the f_s that the gate gives without r_s (``value``): the paper prints
    C f, but f_s depends on r_s. The paper's C grows with the source and saturates the decoder at high learning rates;
    with ``mean``, queries read C / S instead. A query whose size is not k is first projected to k.
    """

    signed = True

    def __init__(
        self,
        *,
        state_size: Size,
        query_size: Size,
        gate: Literal["value", "all"] | None = None,
        recall: Literal["state", "value"] | None = None,
        mean: bool = True,
    ) -> None:
        super().__init__()
        if recall is not None and gate != "all":
            raise ValueError(f"attention.recall={recall}: needs attention.gate=all; set both, or remove recall")
        self.context_size = state_size
        self.gate = gate
        self.recall = recall
        self.mean = mean
        self.exact = gate == "all"
        self.states_per_update = 16 if recall else None
        self.gates = nn.Linear(state_size, state_size + (2 if self.exact else 0)) if gate else None
        if self.gates is not None and self.exact:
            nn.init.constant_(self.gates.bias[:1], 4.0)  # σ(4) = 0.98: an untrained model remembers a sentence
        self.recalled = nn.Linear(state_size, state_size + 2, bias=False) if recall else None
        self.project = nn.Linear(query_size, state_size, bias=False) if query_size != state_size else None

    def update(self, memory: Memory, states: Tensor, mask: Tensor) -> Update:
        if self.gates is None:
            return Update(states, states)
        scores = project(self.gates, states)
        if self.gate == "value":
            f = torch.sigmoid(scores) * states
            return Update(f, f)
        if self.recalled is not None:
            share, weights, f = self._recall(memory, scores, states, mask)
        else:
            log_alpha, beta, f = _gates(scores, states, mask)
            # remaining (B, S + 1): entry s is Π_{j≥s} α_j, the share of everything before s that is left at the end.
            remaining = pad(log_alpha.flip(1).cumsum(1).flip(1), (0, 1)).exp()
            share, weights = remaining[:, :1], remaining[:, 1:] * beta
        return Update(weights[..., None] * f, f, lambda columns: share[..., None] * columns)

    def _recall(self, memory: Memory, scores: Tensor, states: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the share of the memory C_0 that is left (B, 1), and the weights (B, S) and f (B, S, k) of the states.

        C_{s−1} x_s = share · C_0 x_s + Σ_j weights_j f_j (f_jᵀ x_s), over the states j before s. Here share = Π_j α_j
        and weights_j = β_j Π_{i>j} α_i. A sum over few states costs less than a product with a matrix per state.
        """
        assert self.recalled is not None
        probes = _gates(scores, states, mask)[2] if self.recall == "value" else states
        before = probes @ memory.slots if memory.slots.shape[1] else torch.zeros_like(probes)
        share = states.new_ones(states.shape[0], 1)
        weights, written = share[:, :0], states[:, :0]
        for s, x in enumerate(probes.unbind(1)):
            similarities = (written @ x[..., None])[..., 0]
            r = share * before[:, s] + ((weights * similarities)[:, None] @ written)[:, 0]
            r = r / (1 + r.square().sum(1, keepdim=True)).sqrt()
            log_alpha, beta, f = _gates(scores[:, s] + project(self.recalled, r), states[:, s], mask[:, s])
            alpha = log_alpha.exp()[:, None]
            share = share * alpha
            weights = torch.cat([weights * alpha, beta[:, None]], dim=1)
            written = torch.cat([written, f[:, None]], dim=1)
        return share, weights, written

    def read_weights(self, query: Tensor, memory: Memory) -> Tensor:
        if self.project is not None:
            query = self.project(query)
        # Dividing the query rather than the memory keeps C a sum of parts: S changes with every part.
        return query / memory.length.clamp(min=1)[:, None, None].to(query.dtype) if self.mean else query


def _gates(scores: Tensor, h: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return log α (…), β (…) and f (…, k) of scores (…, k + 2) and states (…, k).

    Padding does not decay anything: its log α is 0.
    """
    return logsigmoid(scores[..., 0]) * mask, torch.sigmoid(scores[..., 1]), torch.sigmoid(scores[..., 2:]) * h
