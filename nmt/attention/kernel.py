"""Attention whose weights are inner products of features, so that the source is summed only once.

Katharopoulos et al. (2020), Transformers are RNNs: Fast Autoregressive Transformers with Linear Attention,
arXiv 2006.16236: ``elu``. Li et al. (2020), Linear Attention Mechanism: An Efficient Attention for Semantic
Segmentation, arXiv 2007.14902: ``taylor``, which Su Jianlin (2020), https://kexue.fm/archives/7546, proposed as well.
Shen et al. (2018), Efficient Attention: Attention with Linear
Complexities, arXiv 1812.01243: ``softmax`` and ``scaling``. Arora et al. (2024), Simple linear attention language
models balance the recall-throughput tradeoff, arXiv 2402.18668: ``taylor2``. Zhang et al. (2024), The Hedgehog & the
Porcupine: Expressive Linear Attentions with Softmax Mimicry, arXiv 2402.04347: ``hedgehog``.
"""

from __future__ import annotations

from math import sqrt
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize, pad

from nmt.attention.base import Attention, Memory, Update, nonzero, softmax_over_source
from nmt.settings.arguments import Size

FeatureMap = Literal["elu", "taylor", "taylor2", "hedgehog", "features", "softmax", "scaling", "identity"]
COMBINABLE = {"elu", "features"}
"""Maps with as many features as a key has numbers, all positive, so that one may be for queries and one for keys."""


class KernelAttention(Attention):
    """Linear attention with a feature map φ.

    c_t = φ(q_t)ᵀ Σ_s φ(k_s) h_sᵀ / φ(q_t)ᵀ Σ_s φ(k_s), with k_s = W_k h_s and q_t = W_q d_t.

    elu       φ(x) = elu(x) + 1                                                (Katharopoulos et al., eqs. 5, 7)
    taylor    φ(x) = [1, x/‖x‖]: the weight of s is 1 + cos(q_t, k_s)          (Li et al., eqs. 10 to 12)
    taylor2   φ(x) = [1, x/A^¼, (x_i x_j)/√(2A)]: 1 + y + y²/2, y = q_t·k_s/√A   (Arora et al., §4.1)
    hedgehog  φ(x) = [softmax(x), softmax(−x)]                                 (Zhang et al., §4.1)
    features  φ(x) = softmax(x), over the features of keys and of queries
    softmax   keys: softmax over the source; queries: softmax over features    (Shen et al., §3.2)
    scaling   φ(x) = x, divided only by the length S of the source            (Shen et al., §3.2)
    identity  φ(x) = x, no divisor: with W_k = I, CovarianceAttention(mean=False)

    With ``key_feature_map``, keys have another map than queries: ``elu`` and ``features`` can be combined.

    The linear map inside φ of ``hedgehog`` is part of W_k and of W_q, so keys and queries have different ones.
    ``taylor2`` has 1 + A + A(A + 1)/2 slots: choose ``key_size`` = 16, as its paper does.

    ``taylor`` loses precision if all keys of a source point away from a query: 1 + cos cancels. With w̄ the mean weight
    1 + cos of the source and ε the rounding of the dtype, 1.2e-7 in float32, a context is off by at most √A ε / w̄ times
    the largest state. Keys 1° away from the opposite of the query have w̄ = 1.5e-4.
    """

    def __init__(
        self,
        *,
        state_size: Size,
        query_size: Size,
        feature_map: FeatureMap = "elu",
        key_feature_map: FeatureMap | None = None,
        key_size: Size = 64,
    ) -> None:
        super().__init__()
        require_combinable(feature_map, key_feature_map)
        self.context_size = state_size
        self.feature_map = feature_map
        self.key_feature_map = key_feature_map or feature_map
        self.signed = feature_map in ("scaling", "identity")
        self.W_k = nn.Linear(state_size, key_size, bias=False)
        self.W_q = nn.Linear(query_size, key_size, bias=False)

    def update(self, memory: Memory, states: Tensor, mask: Tensor) -> Update:
        """Return φ(k_s) (B, S, R) as weights; ``softmax`` writes exp(k_s − peak), so that it cannot overflow."""
        keys = self.W_k(states)
        if self.feature_map == "softmax":
            return softmax_over_source(keys.to(states.dtype), states, mask, memory)
        return Update(features(keys, self.key_feature_map), states)

    def read_weights(self, query: Tensor, memory: Memory) -> Tensor:
        """Return φ(q_t) (B, Q, R), divided by the divisor of the paper."""
        mass, length = memory.mass[:, None], memory.length[:, None]
        return divided_features(self.W_q(query), self.feature_map, mass, length)


def require_combinable(feature_map: FeatureMap, key_feature_map: FeatureMap | None) -> None:
    """Raise ValueError unless queries can have the one map and keys the other."""
    if key_feature_map not in (None, feature_map) and not {feature_map, key_feature_map} <= COMBINABLE:
        raise ValueError(
            f"attention.key_feature_map={key_feature_map}: has other features than feature_map={feature_map}; only "
            f"{' and '.join(sorted(COMBINABLE))} can be combined"
        )


def features(projected: Tensor, feature_map: FeatureMap) -> Tensor:
    """Return φ (…, R) of projected keys or queries (…, A); that of ``softmax`` is not computed here."""
    match feature_map:
        case "elu":  # elu(x) + 1 would lose exp(x) in the rounding of the sum
            return torch.where(projected > 0, projected + 1, projected.clamp(max=0).exp())
        case "taylor":
            return pad(normalize(projected, dim=-1), (1, 0), value=1.0)
        case "taylor2":
            return _second_order(projected)
        case "hedgehog":
            return torch.cat([projected.softmax(-1), (-projected).softmax(-1)], dim=-1)
        case "features":
            return projected.softmax(-1)
    return projected


def divided_features(projected: Tensor, feature_map: FeatureMap, mass: Tensor, length: Tensor) -> Tensor:
    """Return φ(q) (…, R), divided as the paper does, of projected queries (…, A).

    ``mass`` (…, R) is the sum of the features of the keys, and ``length`` (…) their number; both are broadcast.
    """
    if feature_map == "elu":  # a common factor of the features cancels: let the largest be at least 1
        projected = projected - projected.amax(-1, keepdim=True).clamp(max=0)
    queries = features(projected, feature_map)
    if feature_map == "identity":
        return queries
    if feature_map == "scaling":  # the paper divides keys and queries by √S; only a read knows S
        return queries / length.clamp(min=1)[..., None].to(queries.dtype)
    if feature_map == "softmax":
        return queries.softmax(-1) / nonzero(mass)
    exact = queries.to(torch.promote_types(queries.dtype, torch.float32))  # a sum over S exceeds float16
    return (exact / nonzero((exact * mass).sum(-1, keepdim=True))).to(queries.dtype)


def _second_order(x: Tensor) -> Tensor:
    """Return features (…, 1 + A + A(A + 1)/2) of x (…, A): all products of two numbers, and squares times √½."""
    size = x.shape[-1]
    rows, columns = torch.triu_indices(size, size, device=x.device)
    share = torch.ones_like(rows, dtype=x.dtype).masked_fill(rows == columns, sqrt(1 / 2))
    squares = x[..., rows] * x[..., columns] * share / sqrt(size)
    return torch.cat([torch.ones_like(x[..., :1]), x / size**0.25, squares], dim=-1)
