"""One algebra for every attention: a source is written into R slots once, and every query reads them.

Source state s writes its value v_s with weights k_s. Query t reads with weights q_t. Both weigh the R slots:

    write      M ← G(M) + Kᵀ V     (R × D)      once per source
    context    c_t = q_t M         (1 × D)      once per query
    alignment  A_ts = q_t · k_s    (T × S)      hence c_t = Σ_s A_ts v_s, exactly, for every class

G is what later states do to what earlier ones wrote: nothing, a decay, a delta rule, or the rescaling of a softmax over
the source. k_s is the weight that is left after the last state. Letters: B batch, S source, Q queries, R slots, E
source state, H query, D value and context, A attention size. Masks are True where real. Real positions come first,
padding follows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from math import isqrt
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn, unflatten
from torch.nn.functional import linear, normalize, pad

from nmt.settings.arguments import CheckedArguments


class Memory(NamedTuple):
    """The written sources, one row per sentence. All hypotheses and target steps share it; nothing changes it."""

    slots: Tensor  #: (B, R, D)  mixed by reads
    mass: Tensor  #: (B, R)  Σ_s trace
    length: Tensor  #: (B,)  number of source states written so far, int64
    keys: Tensor | None = None  #: (B, R, A)  what queries are compared with
    mask: Tensor | None = None  #: (B, R)  True = real; None if every slot is real
    state: Tensor | None = None  #: (B, …)  what else the attention needs, such as the peak of a softmax
    trace: Tensor | None = None  #: (B, R, S)  k; optional, and None if slot s is state s


def slot_fields(memory: Memory) -> Iterator[tuple[str, Tensor]]:
    """Yield the fields of the memory that hold something for each slot, as all but ``length`` do, and their names."""
    return ((name, field) for name, field in memory._asdict().items() if field is not None and name != "length")


class Update(NamedTuple):
    """The change that the next states make to a memory: M ← carry(M) + weightsᵀ values."""

    weights: Tensor  #: (B, S, R)  k, as it remains after the last of these states; may be anything at padding
    values: Tensor  #: (B, S, D)  v
    carry: Callable[[Tensor], Tensor] = lambda columns: columns  #: G, applied to columns (B, R, n)
    state: Tensor | None = None  #: the next ``Memory.state``


class Attention(CheckedArguments, nn.Module):
    """An attention over a memory.

    A subclass implements ``update`` and ``read_weights``, and ``keys`` if queries are compared with what the slots
    hold. It sets the attributes below, as class or instance attributes. Other code reads them and never checks the
    class.
    """

    context_size: int  #: D
    reads: int = 1  #: of each query; their contexts are joined
    reads_source: bool = True  #: False: contexts are empty and there is no alignment
    streaming: bool = True  #: ``append`` works, so a source can be written in parts
    signed: bool = False  #: alignments can be negative
    needs_trace: bool = True  #: ``align`` needs a memory that was written with ``trace``
    exact: bool = False  #: ``update`` gets float32 at least, without autocast: a product of many factors needs it
    states_per_update: int | None = None  #: the fewest states of an update that costs more than a sum; None: all

    def update(self, memory: Memory, states: Tensor, mask: Tensor) -> Update:
        """Return what the states (B, S, E), which are 0 at padding, change; ``memory`` holds those before them.

        Before the first state, the memory has no slots and no ``Memory.state``.
        """
        raise NotImplementedError

    def read_weights(self, query: Tensor, memory: Memory) -> Tensor:
        """Return q (B, Q, R), the weight of each slot in the context of each query (B, Q, H).

        With several reads per query, it is (B, Q·reads, R), those of the first query first.
        """
        raise NotImplementedError

    def keys(self, memory: Memory) -> Tensor | None:
        """Return the keys (B, R, A) of written slots, computed once per source."""
        return None

    def values(self, states: Tensor) -> Tensor:
        """Return v (B, S, D), the values that complete sources (B, S, E) write."""
        mask = torch.ones_like(states[..., 0], dtype=torch.bool)
        return self.update(_empty(states, trace=False), states, mask).values

    def write(self, states: Tensor, mask: Tensor, trace: bool = False) -> Memory:
        """Return the memory of complete sources: states (B, S, E), mask (B, S). ``align`` needs ``trace``."""
        return self._extend(_empty(states, trace=trace), states, mask, empty=True)

    def append(self, memory: Memory, states: Tensor, mask: Tensor) -> Memory:
        """Return a new memory that also holds the next part of each source: states (B, S, E), mask (B, S).

        Raises ValueError if this attention needs the whole source at once.
        """
        if not self.streaming:
            raise ValueError(f"{type(self).__name__}: needs the whole source at once; call write")
        return self._extend(memory, states, mask, empty=False)

    def _extend(self, memory: Memory, states: Tensor, mask: Tensor, *, empty: bool) -> Memory:
        states = clear_padding(states, mask)
        if self.exact:
            states = states.to(torch.promote_types(states.dtype, torch.float32))
        parts = [(states, mask)]
        if self.states_per_update is not None and not torch.compiler.is_compiling():
            size = max(self.states_per_update, isqrt(states.shape[1]) + 1)  # training then keeps √S memories
            parts = list(zip(torch.split(states, size, 1), torch.split(mask, size, 1), strict=True))
        with torch.autocast(states.device.type, enabled=False) if self.exact else nullcontext():
            for part in parts:
                memory = self._write_part(memory, *part, empty=empty)
                empty = False
        return memory._replace(keys=self.keys(memory))

    def _write_part(self, memory: Memory, states: Tensor, mask: Tensor, *, empty: bool) -> Memory:
        weights, values, carry, state = self.update(memory, states, mask)
        weights = clear_padding(weights, mask).transpose(1, 2)
        slots, mass = weights @ values, weights.sum(2)
        if not empty:
            slots, mass = carry(memory.slots) + slots, carry(memory.mass[..., None])[..., 0] + mass
        trace = weights
        if memory.trace is not None and not empty:
            trace = torch.cat([carry(memory.trace), weights], dim=2)
        return memory._replace(
            slots=slots,
            mass=mass,
            length=memory.length + mask.sum(1),
            state=state,
            trace=None if memory.trace is None else trace,
        )

    def read(self, query: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        """Return the context (B, Q, D) and read weights (B, Q, R), the mean of several reads, of queries (B, Q, H).

        Queries are independent of each other: Q can be all steps of a target, or all hypotheses at one step. Raises
        ValueError for queries of another shape.
        """
        require_queries(query)
        weights = self.read_weights(query, memory)
        slots = memory.slots
        context = (weights.to(slots.dtype) @ slots).to(weights.dtype) if self.exact else weights @ slots
        if self.reads == 1:
            return context, weights
        contexts, weights = (unflatten(rows, 1, (-1, self.reads)) for rows in (context, weights))
        return contexts.flatten(2), weights.mean(2)

    def align(self, weights: Tensor, memory: Memory) -> Tensor:
        """Return the alignment (B, Q, S) that the read weights (B, Q, R) used. Rows need not sum to 1.

        Raises ValueError if the memory was written without a trace.
        """
        if memory.trace is None:
            raise ValueError("memory.trace=None: alignments need the trace; write the memory with trace=True")
        return weights.to(memory.trace.dtype) @ memory.trace


def _empty(states: Tensor, *, trace: bool) -> Memory:
    nothing = states.new_zeros(states.shape[0], 0, 0)
    length = torch.zeros(states.shape[0], dtype=torch.int64, device=states.device)
    return Memory(nothing, nothing.flatten(1), length, trace=nothing if trace else None)


class SourceAttention(Attention):
    """An attention over the source states themselves, R = S. A subclass implements ``scores`` and, if needed, ``keys``.

    k_s is the unit vector e_s, and q_t is the softmax of the scores over the real source states.
    """

    streaming = False
    needs_trace = False

    def scores(self, query: Tensor, memory: Memory) -> Tensor:
        """Return the score (B, Q, S) of each slot for each query (B, Q, H)."""
        raise NotImplementedError

    def values(self, states: Tensor) -> Tensor:
        return states

    def write(self, states: Tensor, mask: Tensor, trace: bool = False) -> Memory:
        """Return the memory of complete sources: states (B, S, E), mask (B, S). ``align`` needs no ``trace``."""
        memory = Memory(clear_padding(states, mask), mask.to(states.dtype), mask.sum(1), mask=mask)
        return memory._replace(keys=self.keys(memory))

    def masked_scores(self, query: Tensor, memory: Memory) -> Tensor:
        """Return the scores (B, Q, S), with the lowest finite number at padding.

        After the softmax it is exactly 0, as −∞ would be. A row of padding only stays finite; −∞ would give NaN.
        """
        assert memory.mask is not None
        scores = self.scores(query, memory)
        return scores.masked_fill(~memory.mask[:, None], torch.finfo(scores.dtype).min)

    def read_weights(self, query: Tensor, memory: Memory) -> Tensor:
        return torch.softmax(self.masked_scores(query, memory), dim=2)

    def align(self, weights: Tensor, memory: Memory) -> Tensor:
        """Return the read weights: slot s is source state s, so no trace is needed."""
        return weights


def softmax_over_source(scores: Tensor, values: Tensor, mask: Tensor, memory: Memory) -> Update:
    """Return the update of a softmax over the source, with weights exp(score − peak), for scores (B, S, R).

    They cannot overflow, and divided by the mass they are the softmax. A higher score in a later part is a new peak,
    which rescales the memory: Milakov & Gimelshein (2018), arXiv 1805.02867. The peak needs no gradient: it would
    cancel. A source without states gets the lowest number as its peak.
    """
    lowest = torch.finfo(scores.dtype).min
    scores = scores.masked_fill(~mask[..., None], lowest)
    peak = pad(scores.detach(), (0, 0, 0, 1), value=lowest).amax(1)
    if memory.state is None:
        return Update((scores - peak[:, None]).exp(), values, state=peak)
    peak = torch.maximum(memory.state, peak)
    factor = (memory.state - peak).exp()[..., None]
    return Update((scores - peak[:, None]).exp(), values, lambda columns: columns * factor, peak)


def require_shapes(attention: Attention, states: Tensor, mask: Tensor, query: Tensor) -> None:
    """Write, read and align once. Raise ValueError if a method returns a tensor of another shape than it must."""
    sizes = {"B": mask.shape[0], "S": mask.shape[1], "Q": query.shape[1], "D": attention.context_size}
    sizes["N"] = attention.reads * query.shape[1]
    for method, tensor, letters in _results(attention, states, mask, query):
        shape = tuple(tensor.shape)
        if [sizes.get(letter, size) for letter, size in zip(letters, (*shape, -1, -1, -1), strict=False)] != [*shape]:
            wanted = ", ".join(f"{letter}={sizes[letter]}" if letter in sizes else letter for letter in letters)
            raise ValueError(f"{method} returns shape {shape}, must be ({wanted})")
        if method == "write":
            sizes["R"] = shape[1]


def _results(attention: Attention, states: Tensor, mask: Tensor, query: Tensor) -> Iterator[tuple[str, Tensor, str]]:
    """Yield what each method returns, with the letters of its shape."""
    if type(attention).write is Attention.write:
        weights, values, *_ = attention.update(_empty(states, trace=False), states, mask)
        yield "update", weights, "BSR"
        yield "update", values, "BSV"
    memory = attention.write(states, mask, trace=True)
    yield "write", memory.slots, "BRV"
    if type(attention).read is Attention.read:
        weights = attention.read_weights(query, memory)
        yield "read_weights", weights, "BQR" if attention.reads == 1 else "BNR"
    context, weights = attention.read(query, memory)
    yield "read", context, "BQD"
    yield "read", weights, "BQR"
    yield "align", attention.align(weights, memory), "BQS"


def require_queries(query: Tensor) -> None:
    """Raise ValueError if ``query`` is not (B, Q, H). With (B, H), products would broadcast to a wrong result."""
    if query.dim() != 3:
        raise ValueError(
            f"query of shape {tuple(query.shape)}: must be (batch, queries, size); "
            "use query[:, None] for one query per sentence"
        )


def clear_padding(tensor: Tensor, mask: Tensor) -> Tensor:
    """Return the tensor (B, S, …) with zeros at padding. Unlike a product, this also clears ∞ and NaN."""
    return tensor.masked_fill(~mask[..., None], 0)


def nonzero(divisor: Tensor) -> Tensor:
    """Return the divisor, with 1 for a source without states, so that its contexts are 0 and not NaN."""
    return divisor.where(divisor > 0, 1)


def project(layer: nn.Linear, states: Tensor) -> Tensor:
    """Return ``layer(states)`` in the precision of the states, which may exceed that of the layer's parameters."""
    if layer.weight.dtype == states.dtype:
        return cast(Tensor, layer(states))
    bias = None if layer.bias is None else layer.bias.to(states.dtype)
    return linear(states, layer.weight.to(states.dtype), bias)


def unit(vectors: Tensor) -> Tensor:
    """Return the vectors (…, A) divided by their lengths, at least in float32; zeros stay zeros.

    In float16, the square of a small number is 0, and so is the epsilon of ``normalize``.
    """
    return normalize(vectors.to(torch.promote_types(vectors.dtype, torch.float32)), dim=-1)
