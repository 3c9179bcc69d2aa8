"""Memory attention whose slots are stretches of the source, and are compared with the query.

Britz, Guan & Luong (2017), arXiv 1707.00110, with the comparison of Luong et al. (2015), arXiv 1508.04025. Several
reads of one memory are the multi-query attention of Shazeer (2019), arXiv 1911.02150. Values and slots are scaled as by
Zhang & Sennrich (2019), arXiv 1910.07467. The scores have a learned factor, e^γ, as those of Henry et al. (2020), arXiv
2010.04245.
"""

from __future__ import annotations

from math import ceil, sqrt

import torch
from torch import Tensor, nn

from nmt.attention.base import Attention, Memory, Update
from nmt.settings.arguments import Size

LONGEST = 40  # stretches have at most 2 to this power states
GAIN = 8  # W_v starts 8 times as large as in nn.Linear, so that an update of Adam turns scaled values less
TINY = 1e-6  # added to a mean square before it divides: float16 is exact to 6e-8


class StretchMemoryAttention(Attention):
    """At most r·K slots M_k of neighbouring states, of D/r numbers each, which a query reads H times.

    v_s = n(W_v h_s)         M_k = n(Σ_s α_sk v_s)    α_sk = σ(w · h_s) if s is in stretch k, else 0
    c_t = [c_t¹; …; c_tᴴ]    c_tⁱ = Σ_k βⁱ_tk M_k     βⁱ_t = softmax(e^γⁱ M W_cⁱ d_t)

    n(x) is x divided by its root mean square. A source of up to r·K states has a slot for each. Then neighbouring
    stretches merge, from the first to the last: if each has two states, the next ones will have four. So a source can
    arrive part by part. The memory has at most as many numbers as K states, in r times as many places. γ is one number
    per head. It starts at 0, and training lowers it, so that later updates change the scores less. Training has at most
    r·K/2 slots: with r·K, more models learned slowly. Sizes round up.
    """

    def __init__(
        self, *, state_size: Size, query_size: Size, slots: Size = 64, split: Size = 2, heads: Size = 2
    ) -> None:
        super().__init__()
        if split > state_size:
            raise ValueError(f"attention.split={split}: must be at most {state_size}, the size of a state")
        self.split, self.reads = split, heads
        self.use_slots(slots)
        width = ceil(state_size / split)
        self.context_size = heads * width
        self.W_v = nn.Linear(state_size, width, bias=False)
        nn.init.uniform_(self.W_v.weight, -GAIN / sqrt(state_size), GAIN / sqrt(state_size))
        self.w = nn.Linear(state_size, 1)
        self.W_c = nn.Linear(query_size, heads * width, bias=False)
        self.gamma = nn.Parameter(torch.zeros(heads))

    def use_slots(self, slots: int) -> None:
        """Write memories of K = ``slots`` from now on; no weight depends on K."""
        if slots < 1:
            raise ValueError(f"slots={slots}: must be at least 1")
        self.slots = slots * self.split

    @property
    def max_slots(self) -> int:
        """The largest number of slots: r·K, or half of it in training."""
        return max(1, self.slots // 2) if self.training else self.slots

    def update(self, memory: Memory, states: Tensor, mask: Tensor) -> Update:
        """Return α (B, S, R) and v; the slots before are merged as the new length asks for. R is at most r·K."""
        length = (memory.length + mask.sum(1))[:, None]
        positions = memory.length[:, None] + torch.arange(states.shape[1], device=states.device)
        # min cannot be exported.
        slots: int = torch.sym_min(self.max_slots, memory.slots.shape[1] + states.shape[1])  # type: ignore[no-untyped-call]
        weights = torch.sigmoid(self.w(states)) * self.in_stretch(positions, length, slots).to(states.dtype)
        values = self.W_v(states)

        def merge(columns: Tensor) -> Tensor:
            firsts = self.first_states(memory.length[:, None], columns.shape[1])
            return self.in_stretch(firsts, length, slots).to(columns.dtype).mT @ columns

        return Update(weights, values * scales(values), merge)

    def keys(self, memory: Memory) -> Tensor:
        """Return 1 / rms(Σ_s α_sk v_s) (B, R, 1)."""
        return scales(memory.slots)

    def lengths(self, length: Tensor) -> tuple[Tensor, Tensor]:
        """Return the number ℓ of states in a stretch of a source of this length, and how many stretches have 2ℓ."""
        powers = 2 ** torch.arange(LONGEST, device=length.device)
        size = powers[((powers * self.max_slots <= length).sum(-1, keepdim=True) - 1).clamp(min=0)]
        return size, ((length + size - 1) // size - self.max_slots).clamp(min=0)

    def in_stretch(self, positions: Tensor, length: Tensor, slots: int) -> Tensor:
        """Return whether these positions (B, n) of a source of this length (B, 1) are in each stretch (B, n, slots)."""
        size, longer = self.lengths(length)
        behind = positions - 2 * size * longer
        stretch = torch.where(behind < 0, positions // (2 * size), longer + behind // size)
        return stretch[..., None] == torch.arange(slots, device=length.device)

    def first_states(self, length: Tensor, slots: int) -> Tensor:
        """Return the position (B, slots) of the first state of each stretch of a source of this length (B, 1)."""
        size, longer = self.lengths(length)
        stretch = torch.arange(slots, device=length.device)
        return size * (stretch + torch.minimum(stretch, longer))

    def read_weights(self, query: Tensor, memory: Memory) -> Tensor:
        """Return βⁱ_k / rms(Σ_s α_sk v_s) (B, Q·H, R), the weight of the sum in each slot for each read."""
        assert memory.keys is not None
        scale = memory.keys.transpose(1, 2)
        directions = self.W_c(query).unflatten(2, (self.reads, -1)) * self.gamma.exp()[:, None]
        scores = directions.flatten(1, 2) @ memory.slots.transpose(1, 2) * scale
        is_unused = memory.mass[:, None] == 0
        return torch.softmax(scores.masked_fill(is_unused, torch.finfo(scores.dtype).min), dim=2) * scale


def scales(numbers: Tensor) -> Tensor:
    """Return 1 / rms (…, 1) of numbers (…, n), by a product: sums of onnxruntime depend on the batch."""
    share = numbers.new_full((numbers.shape[-1], 1), 1 / numbers.shape[-1])
    return torch.rsqrt(numbers.square() @ share + TINY)
