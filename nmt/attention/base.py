"""Base classes of all attentions: a source is written into R slots once, and every query reads them.

Source state s writes its value v_s with weights k_s. Query t reads with weights q_t. Both weigh the R slots:

    slots      M   = Σ_s k_s v_sᵀ      (R × D)      once per source
    context    c_t = q_t M             (1 × D)      once per query
    alignment  A_ts = q_t · k_s        (T × S)      hence c_t = Σ_s A_ts v_s, exactly, for every class

A subclass supplies its equations for v, k and q. This file does the rest. Letters: B batch, S source, Q queries, R
slots, E source state, H query, D value and context, A attention size. Masks are True where real. Real positions come
first, padding follows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from nmt.settings.arguments import check_arguments


class Memory(NamedTuple):
    """The written sources, one row per sentence. All hypotheses and target steps share it; nothing changes it.

    An attention can add its own fields behind these, in a named tuple that is its ``memory_type``.
    """

    slots: Tensor  #: (B, R, D)  mixed by reads
    mass: Tensor  #: (B, R)  Σ_s trace
    length: Tensor  #: (B,)  number of source states written so far, int64
    keys: Tensor | None = None  #: (B, R, A)  projected once; only if queries are compared with keys
    mask: Tensor | None = None  #: (B, R)  True = real; None if every slot is real
    peak: Tensor | None = None  #: (B, R)  running maximum of log write weights, for a softmax over source positions
    trace: Tensor | None = None  #: (B, R, S)  share of source s in slot r; optional, and None if slot s is state s
    order: Tensor | None = None  #: (B, ·, S)  sorted codes of the source positions; only for HashedAttention


class Attention(nn.Module):
    """An attention over a memory of fixed size.

    A subclass implements ``write_weights``, ``read_weights`` and, unless it writes the states themselves, ``values``.
    It sets the attributes below, as class or instance attributes. Other code reads them and never checks the class.
    """

    context_size: int  #: D
    memory_type: type[Any] = Memory  #: the named tuple that ``write`` returns; its first fields are those of ``Memory``
    reads_source: bool = True  #: False: contexts are empty and there is no alignment
    streaming: bool = True  #: ``append`` works, so a source can be written in parts
    streaming_advice: str = "attention=covariance"  #: the override to suggest if ``streaming`` is False
    signed: bool = False  #: alignments can be negative
    needs_trace: bool = True  #: ``align`` needs a memory that was written with ``trace``
    sequential: bool = False  #: source states must be written one after the other, because k_s depends on the memory

    def __init_subclass__(cls, **settings: Any) -> None:
        """Let the constructor of each subclass raise ValueError for arguments that do not fit their annotations."""
        super().__init_subclass__(**settings)
        if "__init__" in vars(cls):
            cls.__init__ = check_arguments(cls.__init__)  # type: ignore[method-assign]

    def values(self, states: Tensor) -> Tensor:
        """Return v (B, S, D), the values that the source states (B, S, E) write."""
        return states

    def write_weights(self, states: Tensor, mask: Tensor, start: Tensor) -> Tensor:
        """Return k (B, S, R), the weight of each state in each slot; ``start`` (B,) states were written before.

        The weights of padding do not matter: ``write`` and ``append`` mask them.
        """
        raise NotImplementedError

    def write_terms(self, states: Tensor, mask: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
        """Return k (B, R, S) and v (B, S, D), with zeros at padding."""
        states = clear_padding(states, mask)
        weights = clear_padding(self.write_weights(states, mask, start), mask)
        return weights.transpose(1, 2), self.values(states)

    def read_weights(self, query: Tensor, memory: Memory) -> Tensor:
        """Return q (B, Q, R), the weight of each slot in the context of each query (B, Q, H)."""
        raise NotImplementedError

    def write(self, states: Tensor, mask: Tensor, trace: bool = False) -> Memory:
        """Return the memory of complete sources: states (B, S, E), mask (B, S). ``align`` needs ``trace``."""
        return self.write_part(states, mask, mask.new_zeros(mask.shape[0], dtype=torch.int64), trace)

    def append(self, memory: Memory, states: Tensor, mask: Tensor) -> Memory:
        """Return a new memory that also holds the next part of each source: states (B, S, E), mask (B, S).

        Raises ValueError if this attention needs the whole source at once.
        """
        if not self.streaming:
            raise ValueError(
                f"{type(self).__name__}: needs the whole source at once; call write, or use {self.streaming_advice}"
            )
        return self.merge_parts(memory, self.write_part(states, mask, memory.length, memory.trace is not None))

    def write_part(self, states: Tensor, mask: Tensor, start: Tensor, trace: bool) -> Memory:
        """Return the memory of these states only; ``start`` (B,) states come before them."""
        weights, values = self.write_terms(states, mask, start)
        return Memory(
            slots=weights @ values,
            mass=weights.sum(2),
            length=mask.sum(1),
            trace=weights if trace else None,
        )

    def merge_parts(self, memory: Memory, part: Memory) -> Memory:
        """Return the memory of a source from its beginning, ``memory``, and its next ``part``: the sum of both."""
        return memory._replace(
            slots=memory.slots + part.slots,
            mass=memory.mass + part.mass,
            length=memory.length + part.length,
            trace=None if memory.trace is None else torch.cat([memory.trace, cast(Tensor, part.trace)], dim=2),
        )

    def read(self, query: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        """Return the context (B, Q, D) and read weights (B, Q, R) of queries (B, Q, H).

        Queries are independent of each other: Q can be all steps of a target, or all hypotheses at one step. Raises
        ValueError for queries of another shape.
        """
        require_queries(query)
        weights = self.read_weights(query, memory)
        return weights @ memory.slots, weights

    def align(self, weights: Tensor, memory: Memory) -> Tensor:
        """Return the alignment (B, Q, S) that the read weights (B, Q, R) used. Rows need not sum to 1.

        Raises ValueError if the memory was written without a trace.
        """
        if memory.trace is None:
            raise ValueError("memory.trace=None: alignments need the trace; write the memory with trace=True")
        return weights @ memory.trace


class SourceAttention(Attention):
    """An attention over the source states themselves, R = S. A subclass implements ``scores`` and, if needed, ``keys``.

    k_s is the unit vector e_s, and q_t is the softmax of the scores over the real source states.
    """

    streaming = False
    needs_trace = False

    def keys(self, states: Tensor) -> Tensor | None:
        """Return the keys (B, S, A) that queries are compared with, computed once; None: the states are the keys."""
        return None

    def scores(self, query: Tensor, memory: Memory) -> Tensor:
        """Return the score (B, Q, S) of each slot for each query (B, Q, H)."""
        raise NotImplementedError

    def write(self, states: Tensor, mask: Tensor, trace: bool = False) -> Memory:
        """Return the memory of complete sources: states (B, S, E), mask (B, S). ``align`` needs no ``trace``."""
        states = clear_padding(states, mask)
        mass = mask.to(states.dtype)
        return Memory(
            slots=states,
            mass=mass,
            length=mask.sum(1),
            keys=self.keys(states),
            mask=mask,
        )

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


def require_queries(query: Tensor) -> None:
    """Raise ValueError if ``query`` is not (B, Q, H). With (B, H), products would broadcast to a wrong result."""
    if query.dim() != 3:
        raise ValueError(
            f"query of shape {tuple(query.shape)}: must be (batch, queries, size); "
            "use query[:, None] for one query per sentence"
        )


def map_slots(function: Callable[..., Tensor], *memories: Memory) -> Memory:
    """Return the first memory with ``function`` of all memories' fields in place of each of its fields but ``length``.

    Fields that are None stay None.
    """
    first = memories[0]
    fields = {
        name: function(*(getattr(memory, name) for memory in memories))
        for name, field in first._asdict().items()
        if field is not None and name != "length"
    }
    return first._replace(**fields)


def clear_padding(tensor: Tensor, mask: Tensor) -> Tensor:
    """Return the tensor (B, S, …) with zeros at padding. Unlike a product, this also clears ∞ and NaN."""
    return tensor.masked_fill(~mask[..., None], 0)
