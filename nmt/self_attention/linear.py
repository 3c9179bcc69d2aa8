"""Linear self-attention, whose decoder is a recurrent network with a state of constant size.

Katharopoulos et al. (2020), Transformers are RNNs: Fast Autoregressive Transformers with Linear Attention,
arXiv 2006.16236, with the feature maps of ``KernelAttention``.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from nmt.attention.base import clear_padding
from nmt.attention.kernel import FeatureMap, divided_features, features, require_combinable
from nmt.self_attention.base import Projected, SelfAttention, State
from nmt.self_attention.blocks import in_blocks, in_sequence

CHUNK = 64  # positions
LARGEST_KEY = 40.0  # exp(40) is 2e17: sums of products with it stay far below the largest float32 number


class Sums(NamedTuple):
    """Sums over the positions so far. Their size does not change."""

    slots: Tensor  # (B, N, H, R, d)  Σ_s φ(k_s) v_sᵀ
    mass: Tensor  # (B, N, H, R)  Σ_s φ(k_s)
    length: Tensor  # (B, N)  number of positions, int64


class LinearSelfAttention(SelfAttention):
    """o_t = φ(q_t)ᵀ Σ_s φ(k_s) v_sᵀ / φ(q_t)ᵀ Σ_s φ(k_s), with the divisor of the feature map. A step costs O(1).

    Causally, the sums run over s ≤ t; the map ``scaling`` divides by t, and ``softmax`` normalises the keys over s ≤ t.
    The latter clips keys to ±40 there: a maximum would let later keys change the weights of earlier ones.
    """

    def __init__(
        self, *, size: int, heads: int, feature_map: FeatureMap = "elu", key_feature_map: FeatureMap | None = None
    ) -> None:
        super().__init__(size=size, heads=heads)
        require_combinable(feature_map, key_feature_map)
        self.feature_map = feature_map
        self.key_feature_map = key_feature_map or feature_map

    def both_sides(self, projected: Projected, mask: Tensor) -> Tensor:
        queries, keys, values = projected
        mask = mask[:, None]
        if self.feature_map == "softmax":
            keys = keys.masked_fill(~mask[..., None], torch.finfo(keys.dtype).min).softmax(2)
        else:
            keys = features(keys, self.key_feature_map)
        keys = clear_padding(keys, mask)
        queries = divided_features(queries, self.feature_map, keys.sum(2, keepdim=True), mask.sum(2, keepdim=True))
        return queries @ (keys.transpose(2, 3) @ values)

    def causal(self, projected: Projected) -> Tensor:
        queries, keys, values = projected
        keys = self._key_features(keys)
        length = torch.arange(1, keys.shape[2] + 1, device=keys.device)
        return chunked_form(divided_features(queries, self.feature_map, keys.cumsum(2), length), keys, values)

    def start(self, like: Tensor) -> State:
        mass = 0 * self._key_features(self.zeros(like, 1))[:, :, :, 0]
        length = torch.zeros(mass.shape[:2], dtype=torch.int64, device=like.device)
        return Sums(mass.new_zeros(*mass.shape, self.head_size), mass, length)

    def advance(self, projected: Projected, state: State) -> tuple[Tensor, State]:
        slots, mass, length = state
        keys = self._key_features(projected.keys)
        slots, mass, length = slots + keys.transpose(3, 4) * projected.values, mass + keys[:, :, :, 0], length + 1
        lengths = length[..., None, None]
        queries = divided_features(projected.queries, self.feature_map, mass[:, :, :, None], lengths)
        return queries @ slots, Sums(slots, mass, length)

    def _key_features(self, keys: Tensor) -> Tensor:
        """Return φ(k) (…, T, R) of keys (…, T, d), so that later keys do not change those of earlier ones."""
        if self.feature_map == "softmax":
            return keys.clamp(-LARGEST_KEY, LARGEST_KEY).exp()
        return features(keys, self.key_feature_map)


def masked_form(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Return o_t = q_tᵀ Σ_{s ≤ t} k_s v_sᵀ (…, T, d) by all T × T products: queries, keys (…, T, R), values (…, T, d).

    Queries and keys are features φ, and the queries have already been divided by φ(q_t)ᵀ Σ_{s ≤ t} φ(k_s).
    """
    return (queries @ keys.transpose(-1, -2)).tril() @ values


def chunked_form(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Return the same in O(T): the masked form inside each chunk, plus the state before the chunk.

    Hua et al. (2022), Transformer Quality in Linear Time, arXiv 2202.10447, §3.3.
    """
    length = queries.shape[-2]
    if length <= CHUNK:
        return masked_form(queries, keys, values)
    q, k, v = (in_blocks(part, CHUNK) for part in (queries, keys, values))  # zeros at the end write nothing
    sums = k.transpose(-1, -2) @ v
    # Not the sums of all chunks minus those of this one: a large key would round the earlier chunks away.
    before = pad(sums[..., :-1, :, :].cumsum(-3), (0, 0, 0, 0, 1, 0))
    return in_sequence(masked_form(q, k, v) + q @ before, length)
