"""Attention by ridge regression from keys to states, solved once per source.

von Oswald et al. (2025), MesaNet: Sequence Modeling by Locally Optimal Test-Time Training, arXiv 2506.05233. There
each token solves the problem for the tokens before it. Here the source is complete before the first query.
"""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor, nn

from nmt.attention.base import Attention, Memory, Update, project, unit
from nmt.settings.arguments import AtLeast, Size

NEWTON_STEPS = 16  # enough for eigenvalues from 1 to 4 million


class MesaAttention(Attention):
    """Attention by ridge regression: the linear map from k_s to h_s with the least squared error, applied to q_t.

    c_t = (Σ_s h_s k_sᵀ)(Σ_s k_s k_sᵀ + λI)⁻¹ q_t.

    k_s = W_k h_s / ‖W_k h_s‖, q_t = g W_q d_t / ‖W_q d_t‖ with a learned number g, and λ = ``ridge``. The inverse P of
    the matrix in the middle is part of the memory. Thus M = P Σ_s k_s h_sᵀ and A_ts = q_t · P k_s. A further state
    changes both as in recursive least squares: M ← M + P k (h − Mᵀk)ᵀ with the new P. This is the delta rule with the
    best rate for each key.
    """

    signed = True
    exact = True

    def __init__(
        self, *, state_size: Size, query_size: Size, key_size: Size = 128, ridge: Annotated[float, AtLeast(0.001)] = 1.0
    ) -> None:
        super().__init__()
        self.context_size = state_size
        self.ridge = ridge
        self.W_k = nn.Linear(state_size, key_size, bias=False)
        self.W_q = nn.Linear(query_size, key_size, bias=False)
        # With g = 1, learning starts late: keys that are still alike average the states, so the contexts are small.
        self.g = nn.Parameter(torch.tensor(key_size**0.5))

    def read_weights(self, query: Tensor, memory: Memory) -> Tensor:
        """Return q_t (B, Q, R)."""
        return (self.g * unit(self.W_q(query))).to(query.dtype)

    def update(self, memory: Memory, states: Tensor, mask: Tensor) -> Update:
        """Return the update of ``memory`` by the states: they write with P' k, and P decays to P'.

        P is I / λ at first. The new P' solves (I + P Σ k kᵀ) P' = P.
        """
        keys = unit(project(self.W_k, states))
        before = memory.state
        if before is None:
            identity = torch.eye(keys.shape[2], dtype=keys.dtype, device=keys.device)
            before = (identity / self.ridge).expand(keys.shape[0], -1, -1)
        exact = keys.double()  # float32 loses all digits if λ is small
        inverse = before.double()
        if not torch.compiler.is_exporting() and states.shape[1] < keys.shape[2]:
            projected = exact @ inverse  # P' Kᵀ = P Kᵀ (I + K P Kᵀ)⁻¹ is a smaller system, and P is symmetric
            weights = solve(projected @ exact.transpose(1, 2), projected).transpose(1, 2)
        else:
            weights = solve(inverse @ (exact.transpose(1, 2) @ exact), inverse) @ exact.transpose(1, 2)
        weights = weights.to(keys.dtype)

        def carry(columns: Tensor) -> Tensor:
            return columns - weights @ (keys @ columns)

        return Update(weights.transpose(1, 2), states, carry, carry(before))


def solve(matrix: Tensor, right: Tensor) -> Tensor:
    """Return (I + ``matrix``)⁻¹ ``right`` for square matrices (B, n, n) with real eigenvalues ≥ 0.

    ONNX has no operator for it, so an exported graph has Newton's iteration for the inverse X ← X (2I − A X), with
    scaled steps. Pan & Schreiber (1991), An Improved Newton Iteration for the Generalized Inverse of a Matrix.
    """
    identity = torch.eye(matrix.shape[1], dtype=matrix.dtype, device=matrix.device)
    matrix = identity + matrix
    if not torch.compiler.is_exporting():
        solution: Tensor = torch.linalg.solve(matrix, right)
        return solution
    largest = matrix.abs().sum(2).amax(1)[:, None, None]  # no eigenvalue is larger
    inverse = identity / largest
    lowest = 1 / largest  # the eigenvalues of A X lie between ``lowest`` and 1
    for _ in range(NEWTON_STEPS):
        inverse = inverse * (2 / (1 + lowest))
        inverse = inverse @ (2 * identity - matrix @ inverse)
        lowest = 4 * lowest / (1 + lowest) ** 2
    return inverse @ right
