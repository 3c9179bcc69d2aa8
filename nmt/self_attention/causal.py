"""Causal linear attention in three equal forms: o_t = q_tᵀ Σ_{s ≤ t} k_s v_sᵀ.

Katharopoulos et al. (2020), Transformers are RNNs: Fast Autoregressive Transformers with Linear Attention,
arXiv 2006.16236, §3.3 and §3.4. Hua et al. (2022), Transformer Quality in Linear Time, arXiv 2202.10447, §3.3, for
the chunks. Queries and keys are features φ, and the queries have already been divided by φ(q_t)ᵀ Σ_{s ≤ t} φ(k_s).

Letters: M rows (sentences times heads), N positions, R features, D value.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

CHUNK = 64  # positions


def masked_form(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Return o (M, N, D) by all N × N products: queries and keys (M, N, R), values (M, N, D)."""
    return (queries @ keys.transpose(1, 2)).tril() @ values


def recurrent_form(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Return the same by a recurrent network whose state is the matrix Σ k vᵀ (eqs. 16 to 20)."""
    state = keys.new_zeros(keys.shape[0], keys.shape[2], values.shape[2])
    outputs = []
    for q, k, v in zip(queries.unbind(1), keys.unbind(1), values.unbind(1), strict=True):
        output, state = one_step(q, k, v, state)
        outputs.append(output)
    return torch.stack(outputs, dim=1)


def one_step(query: Tensor, key: Tensor, value: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """Return o (M, D) and the next state (M, R, D) of one position: query and key (M, R), value (M, D)."""
    state = state + key[:, :, None] * value[:, None]
    return (query[:, None] @ state)[:, 0], state


def chunked_form(queries: Tensor, keys: Tensor, values: Tensor, *, size: int = CHUNK) -> Tensor:
    """Return the same in O(N): the masked form inside each chunk of ``size``, plus the state before the chunk."""
    rows, length, _ = queries.shape
    if length <= size:
        return masked_form(queries, keys, values)
    missing = -length % size
    # (M·chunks, size, …): zeros at the end write nothing
    q, k, v = (pad(part, (0, 0, 0, missing)).reshape(-1, size, part.shape[2]) for part in (queries, keys, values))
    sums = (k.transpose(1, 2) @ v).reshape(rows, -1, k.shape[2], v.shape[2])
    # Not the sums of all chunks minus those of this one: a large key would round the earlier chunks away.
    before = pad(sums[:, :-1].cumsum(1), (0, 0, 0, 0, 1, 0)).flatten(0, 1)
    outputs: Tensor = masked_form(q, k, v) + q @ before
    return outputs.reshape(rows, length + missing, -1)[:, :length]
