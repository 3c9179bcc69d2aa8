"""Covariance attention whose earlier states decay: the general form of the gated update.

de Brébisson & Vincent (2016), A Cheap Linear Attention Mechanism with Fast Lookups and Fixed-Size
Representations, arXiv 1609.05866, §4.
"""

from __future__ import annotations

from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, logsigmoid, pad

from nmt.attention.base import Memory
from nmt.attention.covariance import CovarianceAttention
from nmt.attention.decaying import DecayingAttention, Update, project
from nmt.attention.scan import Tensors, scan
from nmt.settings.arguments import Size

CHUNK = 16  #: states that are recalled from a sum over the chunk instead of from C


class GeneralCovarianceAttention(DecayingAttention, CovarianceAttention):
    """Covariance attention whose earlier states decay.

    C_s = α_s C_{s−1} + β_s f_s f_sᵀ, read as C q_t (or, with ``mean``, as C q_t / S).

    α_s = σ(w_α h_s + b_α), β_s = σ(w_β h_s + b_β) and f_s = σ(W h_s + b) ∘ h_s. With ``recall`` each σ also gets
    r_s = C_{s−1} x_s, scaled to a norm below 1 so that it cannot saturate the gates. ``recall_by`` chooses x_s:
    ``state`` is h_s. The paper prints C f, but f_s depends on r_s, so ``value`` is the f_s that the gate gives without
    r_s. States are then written one after the other. Without ``recall`` no gate depends on C, and C is a single matrix
    product.
    """

    def __init__(
        self,
        *,
        state_size: Size,
        query_size: Size,
        recall: bool = False,
        recall_by: Literal["state", "value"] = "state",
        mean: bool = True,
    ) -> None:
        super().__init__(state_size=state_size, query_size=query_size, mean=mean)
        if recall_by == "value" and not recall:
            raise ValueError("attention.recall_by=value: needs attention.recall=true; set both, or remove recall_by")
        self.rank = state_size
        self.sequential = recall
        self.recall_by = recall_by
        self.gates = nn.Linear(state_size, state_size + 2)  # α, β and f in one product
        nn.init.constant_(self.gates.bias[:1], 4.0)  # σ(4) = 0.98: an untrained model remembers a sentence
        self.recalled = nn.Linear(state_size, state_size + 2, bias=False) if recall else None

    def values(self, states: Tensor) -> Tensor:
        """Return f (B, S, k)."""
        return self._gated(
            states, torch.ones_like(states[..., 0]), states.new_zeros(states.shape[0], self.rank, self.rank)
        )[2]

    def update(self, memory: Memory, states: Tensor, mask: Tensor) -> Update:
        log_alpha, beta, f = self._gated(states, mask.to(states.dtype), memory.slots)
        # remaining (B, S + 1): entry s is Π_{j≥s} α_j, the share of everything before s that is left at the end.
        remaining = pad(log_alpha.flip(1).cumsum(1).flip(1), (0, 1)).exp()
        weights = (remaining[:, 1:] * beta)[..., None] * f
        return Update(lambda columns: remaining[:, :1, None] * columns, weights.transpose(1, 2), f)

    def _gated(self, states: Tensor, real: Tensor, covariance: Tensor) -> Tensors:
        """Return log α (B, S), β (B, S) and f (B, S, k). Padding gets log α = 0 and β = 0, so it changes nothing."""
        scores = project(self.gates, states)
        length = states.shape[1]
        if self.recalled is None or not length:
            return _gates(scores, states, real)
        size = min(length, CHUNK)
        chunks = tuple(_split(tensor, size) for tensor in (scores, states, real))
        step = partial(_chunk, by_value=self.recall_by == "value")
        _, outputs = scan(step, covariance, chunks, (self.recalled.weight.to(states.dtype),))
        log_alpha, beta, f = (output.flatten(1, 2)[:, :length] for output in outputs)
        return log_alpha, beta, f


def _split(tensor: Tensor, size: int) -> Tensor:
    """Return chunks (B, S / size, size, …) of a tensor (B, S, …). The last one is padded with zeros."""
    missing = -tensor.shape[1] % size
    padded = pad(tensor, (0, 0) * (tensor.ndim - 2) + (0, missing))
    return torch.unflatten(padded, 1, (-1, size))


def _chunk(covariance: Tensor, inputs: Tensors, parameters: Tensors, *, by_value: bool) -> tuple[Tensor, Tensors]:
    """Return C (B, k, k) after one more chunk of states, and the chunk's log α (B, c), β (B, c) and f (B, c, k).

    ``inputs``: scores (B, c, k + 2) of the states, the states h (B, c, k), and (B, c) 1 if a state is real, else 0.
    The gates see C x: x is h or, ``by_value``, the f that the scores alone give. Within the chunk,
    C x_s = share · C_0 x_s + Σ_j weights_j f_j (f_jᵀ x_s) is a sum over its earlier states j, with share = Π α and
    weights_j = β_j Π_{i>j} α_i. It costs c·k products per state instead of k².
    """
    probes = _gates(*inputs)[2] if by_value else inputs[1]
    earlier = probes @ covariance.transpose(1, 2)  # C_0 x_s for all states of the chunk
    share = torch.ones_like(inputs[2][:, :1])
    weights = share[:, :0]
    written = earlier[:, :0]
    gates = []
    for scores, h, real, x, first in zip(*(tensor.unbind(1) for tensor in (*inputs, probes, earlier)), strict=True):
        similarities = (written @ x[..., None])[..., 0]  # f_jᵀ x_s
        recalled = share * first + ((weights * similarities)[:, None] @ written)[:, 0]
        recalled = recalled / (1 + recalled.square().sum(1, keepdim=True)).sqrt()
        log_alpha, beta, f = _gates(scores + linear(recalled, *parameters), h, real)
        alpha = log_alpha.exp()[:, None]
        share = share * alpha
        weights = torch.cat([weights * alpha, beta[:, None]], dim=1)
        written = torch.cat([written, f[:, None]], dim=1)
        gates.append((log_alpha, beta, f))
    covariance = share[..., None] * covariance + (weights[..., None] * written).transpose(1, 2) @ written
    return covariance, tuple(torch.stack(column, dim=1) for column in zip(*gates, strict=True))


def _gates(scores: Tensor, h: Tensor, real: Tensor) -> Tensors:
    """Return log α (…), β (…) and f (…, k) from scores (…, k + 2). At padding, ``real`` (…) and h are 0."""
    log_alpha = logsigmoid(scores[..., 0]) * real
    return log_alpha, torch.sigmoid(scores[..., 1]) * real, torch.sigmoid(scores[..., 2:]) * h
