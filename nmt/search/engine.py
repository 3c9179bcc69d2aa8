"""The interface between search and a model: five methods that exchange NumPy arrays.

Letters: b sentences still in the batch, N hypotheses per sentence, k candidates per hypothesis, R slots of the memory,
S source pieces, T target pieces. One round of search is one ``step``, sometimes followed by a ``drop``:

    source = engine.encode(sources)
    state = engine.init(source)                                   # b sentences, one hypothesis each
    state, log_probs, ids, weights = engine.step(state, tokens, parents, k, banned)
    state = engine.drop(state, keep)                              # removes sentences that have ended

The hypotheses lie on the query axis: a step reorders the decoder's small state by ``parents`` and never touches the
memory. Only ``drop`` changes the memory, once per sentence. An engine may also have a method ``search_one`` (see
``nmt.search.one_sentence``), which makes all rounds for one sentence.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from nmt.text.specials import BOS, PAD, UNK

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.floating[Any]]
    Integers = NDArray[np.int64]
    Booleans = NDArray[np.bool_]
else:  # numpy.typing takes 1 ms to import
    Floats = Integers = Booleans = np.ndarray

Source = TypeVar("Source")
"""An encoded batch; search does not look inside."""
State = TypeVar("State")
"""The data that an engine carries from step to step. Search does not look inside; the engine never mutates it."""

BANNED: tuple[int, ...] = (PAD, UNK, BOS)
"""Ids that no hypothesis may contain, unless ``SearchOptions.replace_unknown`` allows UNK."""


class Engine(Protocol[Source, State]):
    """A model as search sees it. The caller owns the arrays that it returns: the engine never reuses their buffers."""

    def encode(self, sources: list[list[int]]) -> Source:
        """Return the encoded batch. Each source is a list of piece ids that already ends in ``</s>``."""

    def init(self, source: Source) -> State:
        """Return the state before the first step: each sentence has one hypothesis without tokens."""

    def step(
        self, state: State, tokens: Integers, parents: Integers, k: int, banned: Sequence[int] | None = None
    ) -> tuple[State, Floats, Integers, Floats]:
        """Let each hypothesis read one token; return (state, log_probs (b,N,k), ids (b,N,k), weights (b,N,R)).

        ``tokens`` (b,N) are the tokens to read. ``parents`` (b,N) are the hypotheses of the previous step that each
        new one extends (all 0 in the first step, where N = 1). N may differ from step to step.
        ``log_probs`` are the k best natural log-probabilities, best first, normalised over all pieces that the engine
        scores: the vocabulary, or a shortlist.
        ``banned`` ids cannot be chosen; the others are not renormalised. A vocabulary smaller than k gives fewer than
        k candidates, and -inf means "no candidate".
        ``weights`` are the read weights behind these predictions.
        """

    def drop(self, state: State, keep: Integers) -> State:
        """Return the state of the sentences ``keep`` (row indices in ascending order); the others have ended."""

    def align(self, source: Source, row: int, weights: Floats) -> Floats:
        """Return the alignment (T,S') of read weights (T,R) with sentence ``row`` of the encoded batch; S' ≥ S."""


class ModelEngine(Engine[Source, State], Protocol):
    """An engine that also gives the log-probabilities of all pieces, which an ensemble averages."""

    def all_log_probs(self, state: State, tokens: Integers, parents: Integers) -> tuple[State, Floats, Floats]:
        """Let each hypothesis read one token; return (state, log_probs (b,N,V) by id, weights (b,N,R))."""


def padded(sources: Sequence[Sequence[int]]) -> Integers:
    """Return the ids (b,S) of encoded sources, with padding after the end of the shorter ones."""
    ids = np.full((len(sources), max(map(len, sources))), PAD, dtype=np.int64)
    for row, source in zip(ids, sources, strict=True):
        row[: len(source)] = source
    return ids
