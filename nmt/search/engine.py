"""What search needs from a model: five methods, spoken in NumPy arrays.

Letters: b sentences still in the batch, N hypotheses of each, k candidates of each hypothesis, R slots of the
memory, S source pieces, T target pieces. One round of search is one ``step``, now and then with a ``drop``:

    source = engine.encode(sources)
    state = engine.init(source)                                   # b sentences, one hypothesis each
    state, log_probs, ids, weights = engine.step(state, tokens, parents, k, banned)
    state = engine.drop(state, keep)                              # sentences that ended leave, for good

The hypotheses live on the query axis: a step re-orders the decoder's small state by ``parents`` and never
touches the memory; only ``drop`` does, once for each sentence.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from nmt.text.specials import BOS, PAD, UNK

Floats = NDArray[np.floating[Any]]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]

Source = TypeVar("Source")
"""What an engine makes of a batch: opaque to search."""
State = TypeVar("State")
"""What an engine carries from step to step: opaque to search, never mutated by the engine's methods."""

BANNED: tuple[int, ...] = (PAD, UNK, BOS)
"""Ids that no hypothesis may contain."""


class Engine(Protocol[Source, State]):
    """A model as search sees it. Arrays that it returns are the caller's to keep: no buffer is used again."""

    def encode(self, sources: list[list[int]]) -> Source:
        """The encoded batch. Each source is a list of piece ids that already ends in ``</s>``."""
        ...

    def init(self, source: Source) -> State:
        """The state before the first step: every sentence has one hypothesis, with no token yet."""
        ...

    def step(
        self, state: State, tokens: Integers, parents: Integers, k: int, banned: Sequence[int] | None = None
    ) -> tuple[State, Floats, Integers, Floats]:
        """(state, log_probs (b,N,k), ids (b,N,k), weights (b,N,R)), each hypothesis having read a token.

        ``tokens`` (b,N) are the tokens to read; ``parents`` (b,N) say which hypothesis of the previous step
        each one extends (all 0 in the first step, where N = 1). N may differ from step to step.
        ``log_probs`` are the k best natural log-probabilities, best first, normalised over the whole
        vocabulary: ``banned`` ids take no part in the choice, but nothing is renormalised. Fewer than k come
        back when the vocabulary is smaller than k, and -inf stands for "no candidate".
        ``weights`` are the read weights that these predictions used.
        """
        ...

    def drop(self, state: State, keep: Integers) -> State:
        """The state of the sentences ``keep`` (rising row indices) alone: the others have ended."""
        ...

    def align(self, source: Source, row: int, weights: Floats) -> Floats:
        """The alignment (T,S') of read weights (T,R) with sentence ``row`` of the encoded batch; S' ≥ S."""
        ...
