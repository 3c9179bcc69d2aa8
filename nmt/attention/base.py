"""The algebra that all attentions share: a source is written into R slots once, every query reads them.

Source state s writes its value v_s with weights k_s, query t reads with weights q_t, both over the R slots:

    slots      M   = Σ_s k_s v_sᵀ      (R × D)      once per source
    context    c_t = q_t M             (1 × D)      once per query
    alignment  A_ts = q_t · k_s        (T × S)      hence c_t = Σ_s A_ts v_s, exactly, for every kind

A kind supplies its equations for v, k and q; everything else is here. Letters: B batch, S source, Q queries,
R slots, E source state, H query, D value and context, A attention size. Masks are True where real, and real
positions come first.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import torch
from torch import Tensor, nn


class Memory(NamedTuple):
    """One row per source sentence, shared by all its hypotheses and all target steps, and never changed."""

    slots: Tensor  # (B, R, D)  what a read mixes
    mass: Tensor  # (B, R)  Σ_s trace
    length: Tensor  # (B,)  source states written so far, int64
    keys: Tensor | None = None  # (B, R, A)  projected once; only kinds that score against keys
    mask: Tensor | None = None  # (B, R)  True = real; None where every slot is
    peak: Tensor | None = None  # (B, R)  running maximum of log write weights (streaming softmax over time)
    trace: Tensor | None = None  # (B, R, S)  share of source s in slot r; opt-in, for it alone grows with S


class Attention(nn.Module):
    """An attention over a memory of fixed size.

    A kind supplies ``write_weights``, ``read_weights`` and, unless it writes the states, ``values``.
    """

    context_size: int  # D
    streams: bool = True  # a source may arrive in pieces, through ``append``
    signed: bool = False  # alignments may be negative
    sequential: bool = False  # one source state must be written after the other
    longest: int | None = None  # source states that can be written at most; None: any number

    def values(self, states: Tensor) -> Tensor:
        """v (B, S, D): what each source state (B, S, E) writes."""
        return states

    def write_weights(self, states: Tensor, mask: Tensor, start: Tensor) -> Tensor:
        """k (B, S, R): how much of each state goes into each slot; ``start`` (B,) states were written before.

        What it says about padding does not matter: ``write`` and ``append`` mask it.
        """
        raise NotImplementedError

    def write_terms(self, states: Tensor, mask: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
        """k (B, R, S) and v (B, S, D) of real positions, zeros for padding."""
        states = clear_padding(states, mask)
        weights = clear_padding(self.write_weights(states, mask, start), mask)
        return weights.transpose(1, 2), self.values(states)

    def read_weights(self, query: Tensor, memory: Memory) -> Tensor:
        """q (B, Q, R): how much of each slot goes into the context of each query (B, Q, H)."""
        raise NotImplementedError

    def write(self, states: Tensor, mask: Tensor, trace: bool = False) -> Memory:
        """The memory of whole sources: states (B, S, E), mask (B, S); ``trace`` keeps what aligns."""
        return self.piece(states, mask, mask.new_zeros(mask.shape[0], dtype=torch.int64), trace)

    def append(self, memory: Memory, states: Tensor, mask: Tensor) -> Memory:
        """A new memory that holds the next piece of each source as well: states (B, S, E), mask (B, S).

        Raises ValueError where this attention must see a source as a whole.
        """
        if not self.streams:
            kind = type(self).__name__
            raise ValueError(f"{kind} with these settings must see the whole source at once: use write")
        return self.join(memory, self.piece(states, mask, memory.length, memory.trace is not None))

    def piece(self, states: Tensor, mask: Tensor, start: Tensor, trace: bool) -> Memory:
        """The memory of these states alone, of which ``start`` (B,) others stand before."""
        weights, values = self.write_terms(states, mask, start)
        return Memory(
            slots=weights @ values,
            mass=weights.sum(2),
            length=mask.sum(1),
            trace=weights if trace else None,
        )

    def join(self, memory: Memory, piece: Memory) -> Memory:
        """The memory of a source whose last part is ``piece``: what was written simply adds up."""
        return memory._replace(
            slots=memory.slots + piece.slots,
            mass=memory.mass + piece.mass,
            length=memory.length + piece.length,
            trace=None if memory.trace is None else torch.cat([memory.trace, cast(Tensor, piece.trace)], dim=2),
        )

    def refuse_longer(self, length: Tensor) -> None:
        """Raises ValueError where a source of ``length`` (B,) states is longer than ``longest``."""
        if self.longest is None or torch.compiler.is_compiling():  # a graph cannot look at its numbers
            return
        if (most := int(length.max())) > self.longest:
            kind = type(self).__name__
            raise ValueError(f"a source of {most:,} states: {kind} was built for at most {self.longest:,}")

    def read(self, query: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        """Context (B, Q, D) and read weights (B, Q, R) of queries (B, Q, H).

        Queries are independent of each other: Q may be all steps of a target, or all hypotheses of one step.
        """
        weights = self.read_weights(query, memory)
        return weights @ memory.slots, weights

    def align(self, weights: Tensor, memory: Memory) -> Tensor:
        """Alignment (B, Q, S) of read weights (B, Q, R), as used: perhaps signed, and rows need not sum to 1.

        Raises ValueError where the memory was written without a trace.
        """
        if memory.trace is None:
            raise ValueError("this memory keeps no trace of its source: write it with trace=True to align")
        return weights @ memory.trace


class SourceAttention(Attention):
    """An attention over the source states themselves, R = S: a kind supplies ``scores`` and perhaps ``keys``.

    k_s is the unit vector e_s, and q_t the softmax of the scores over the real source states.
    """

    streams = False

    def keys(self, states: Tensor) -> Tensor | None:
        """(B, S, A): what queries are compared with, once per source; None for the states themselves."""
        return None

    def scores(self, query: Tensor, memory: Memory) -> Tensor:
        """(B, Q, S): how well each query (B, Q, H) goes with each slot."""
        raise NotImplementedError

    def write(self, states: Tensor, mask: Tensor, trace: bool = False) -> Memory:
        """The memory of whole sources: states (B, S, E), mask (B, S)."""
        states = clear_padding(states, mask)
        mass = mask.to(states.dtype)
        return Memory(
            slots=states,
            mass=mass,
            length=mask.sum(1),
            keys=self.keys(states),
            mask=mask,
            trace=torch.diag_embed(mass) if trace else None,
        )

    def masked_scores(self, query: Tensor, memory: Memory) -> Tensor:
        """Scores (B, Q, S), at padding the smallest number there is.

        Rather than −∞: still exactly 0 after the softmax, but never NaN, not even in a row without a real state.
        """
        assert memory.mask is not None
        scores = self.scores(query, memory)
        return scores.masked_fill(~memory.mask[:, None], torch.finfo(scores.dtype).min)

    def read_weights(self, query: Tensor, memory: Memory) -> Tensor:
        return torch.softmax(self.masked_scores(query, memory), dim=2)

    def align(self, weights: Tensor, memory: Memory) -> Tensor:
        """The read weights: slot s is source state s, so no trace is needed."""
        return weights


def clear_padding(numbers: Tensor, mask: Tensor) -> Tensor:
    """(B, S, …) with zeros at padding, whatever was there: 0 · ∞ and 0 · NaN would be NaN."""
    return numbers.masked_fill(~mask[..., None], 0)
