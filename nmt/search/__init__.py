"""Greedy search, beam search and sampling over any ``Engine``, in NumPy only.

``search`` translates one batch. The model stays behind the engine, so this package never imports torch.
"""

from __future__ import annotations

from nmt.search.engine import Engine
from nmt.search.history import Hypothesis
from nmt.search.options import MAX_LENGTH_CEILING, SearchOptions
from nmt.search.sampling import sentence_seed
from nmt.search.scoring import length_penalty
from nmt.search.search import search, search_encoded

__all__ = [
    "MAX_LENGTH_CEILING",
    "Engine",
    "Hypothesis",
    "SearchOptions",
    "length_penalty",
    "search",
    "search_encoded",
    "sentence_seed",
]
