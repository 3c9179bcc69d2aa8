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
        queries, keys, values = (part.flatten(0, 1) for part in projected)
        mask = mask.repeat_interleave(self.heads, dim=0)
        if self.feature_map == "softmax":
            keys = keys.masked_fill(~mask[..., None], torch.finfo(keys.dtype).min).softmax(1)
            keys = clear_padding(keys, mask)
            mass = torch.ones_like(keys[:, 0])
        else:
            keys = clear_padding(features(keys, self.key_feature_map), mask)
            mass = keys.sum(1)
        queries = divided_features(queries, self.feature_map, mass, mask.sum(1))
        return self._split(queries @ (keys.transpose(1, 2) @ values))

    def causal(self, projected: Projected) -> Tensor:
        queries, keys, values = (part.flatten(0, 1) for part in projected)
        keys = self._key_features(keys)
        length = torch.arange(1, keys.shape[1] + 1, device=keys.device).expand(len(keys), -1)
        queries = self._query_features(queries.flatten(0, 1), keys.cumsum(1).flatten(0, 1), length.flatten())
        return self._split(chunked_form(queries.view(*keys.shape[:2], -1), keys, values))

    def start(self, like: Tensor) -> State:
        count = self._key_features(like.new_zeros(1, 1, self.head_size)).shape[2]
        rows = (like.shape[0], 1)
        mass = like.new_zeros(*rows, self.heads, count)
        length = torch.zeros(rows, dtype=torch.int64, device=like.device)
        return Sums(mass.new_zeros(*mass.shape, self.head_size), mass, length)

    def advance(self, projected: Projected, state: State) -> tuple[Tensor, State]:
        slots, mass, length = state
        queries, keys, values = (part.flatten(0, 2) for part in projected)
        key = self._key_features(keys)[:, 0]
        mass, length = mass + key.view_as(mass), length + 1
        lengths = length[..., None].expand(mass.shape[:3]).flatten()
        query = self._query_features(queries[:, 0], mass.flatten(0, 2), lengths)
        output, after = one_step(query, key, values[:, 0], slots.flatten(0, 2))
        return output.reshape(*mass.shape[:3], 1, -1), Sums(after.view_as(slots), mass, length)

    def _split(self, output: Tensor) -> Tensor:
        """Return (B·H, T, d) as (B, H, T, d)."""
        return torch.unflatten(output, 0, (-1, self.heads))

    def _key_features(self, keys: Tensor) -> Tensor:
        """Return φ(k) (M, T, R) of keys (M, T, d)."""
        if self.feature_map == "softmax":
            return keys.clamp(-LARGEST_KEY, LARGEST_KEY).exp()
        return features(keys, self.key_feature_map)

    def _query_features(self, queries: Tensor, mass: Tensor, length: Tensor) -> Tensor:
        """Return φ(q) (M, R) after division, for queries (M, d) that each see ``length`` (M,) keys of mass (M, R)."""
        return divided_features(queries[:, None], self.feature_map, mass, length)[:, 0]


def masked_form(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Return o_t = q_tᵀ Σ_{s ≤ t} k_s v_sᵀ (…, N, D) by all N × N products: queries, keys (…, N, R), values (…, N, D).

    Queries and keys are features φ, and the queries have already been divided by φ(q_t)ᵀ Σ_{s ≤ t} φ(k_s). Letters: M
    rows (sentences times heads), N positions, R features, D value.
    """
    return (queries @ keys.transpose(-1, -2)).tril() @ values


def one_step(query: Tensor, key: Tensor, value: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """Return o (M, D) and the next state Σ k vᵀ (M, R, D) of one position: query and key (M, R), value (M, D)."""
    state = state + key[:, :, None] * value[:, None]
    return (query[:, None] @ state)[:, 0], state


def chunked_form(queries: Tensor, keys: Tensor, values: Tensor, *, size: int = CHUNK) -> Tensor:
    """Return the same in O(N): the masked form inside each chunk of ``size``, plus the state before the chunk.

    Hua et al. (2022), Transformer Quality in Linear Time, arXiv 2202.10447, §3.3.
    """
    length = queries.shape[1]
    if length <= size:
        return masked_form(queries, keys, values)
    q, k, v = (in_blocks(part, size) for part in (queries, keys, values))  # zeros at the end write nothing
    sums = k.transpose(2, 3) @ v
    # Not the sums of all chunks minus those of this one: a large key would round the earlier chunks away.
    before = pad(sums[:, :-1].cumsum(1), (0, 0, 0, 0, 1, 0))
    return in_sequence(masked_form(q, k, v) + q @ before, length)
