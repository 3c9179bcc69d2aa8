"""Options of a search, checked when they are created."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated, Literal, get_type_hints

import numpy as np

from nmt.errors import UserError
from nmt.search.engine import BANNED, Integers
from nmt.settings.arguments import TypeCheck
from nmt.settings.bounds import AtLeast, AtMost, Count
from nmt.settings.build import PYTHON_ONLY
from nmt.text.specials import UNK

MAX_LENGTH_CEILING = 1000
"""Maximum number of target pieces of any translation, however long its source."""


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """Options of a search: beam by default, greedy with ``beam_size=1``, sampling with a ``temperature``.

    Raises UserError, which names the option, its value and the fix.
    """

    beam_size: Annotated[int, AtLeast(1), AtMost(1000)] = 5
    """Live hypotheses per sentence (N)."""
    length_penalty: Annotated[float, AtLeast(0), AtMost(100)] = 1.0
    """alpha of Wu et al. 2016; 0 ranks by plain log-probability."""
    coverage_penalty: Annotated[float, AtLeast(0), AtMost(1000)] = 0.0
    """beta of Wu et al. 2016: the cost of source pieces that got little attention; 0: off."""
    n_best: Annotated[int, AtLeast(1), AtMost(10_000)] = 1
    """Maximum translations per sentence, best first, with different texts; when sampling, the number of draws."""
    max_length: Annotated[int, AtLeast(1), AtMost(MAX_LENGTH_CEILING)] | None = None
    """Maximum target pieces, without ``</s>``; null: 2·S + 10 for S source pieces with ``</s>``. At most 1000."""
    temperature: Annotated[float, AtLeast(0.001), AtMost(1000)] | None = None
    """Sample instead of searching: values below 1 sharpen the distribution, above 1 flatten it; null: off."""
    top_k: Count | None = None
    """Sample from the k most likely pieces only; null: from all."""
    seed: Annotated[int, AtLeast(0)] = 1
    """Seed of the draws. They depend on it and on the sentence, not on other sentences of the batch."""
    replace_unknown: bool = False
    """Allow ``<unk>``, and write the source word that it aligns to in its place. For tokenizers without bytes."""
    lexicon: str | None = None
    """File of source words, a tab and a translation, which ``replace_unknown`` writes instead; null: none."""
    glossary: str | None = None
    """File of source terms, a tab and what a translation must write for them; null: none."""
    keep_placeholders: bool = False
    """Keep numbers, addresses, ``{name}``, ``%s`` and code as they are."""
    keep_weights: bool = field(default=False, metadata=PYTHON_ONLY)
    """Return read weights and alignment with each hypothesis. For Python callers, not for configurations."""

    def __post_init__(self) -> None:
        for name, hint in get_type_hints(type(self), include_extras=True).items():
            for problem in TypeCheck().problems(getattr(self, name), hint, f"search.{name}"):
                raise UserError(problem)
        if self.method != "beam" and self.coverage_penalty:
            raise UserError(
                f"search.coverage_penalty={self.coverage_penalty:g}: needs beam search; remove it, or "
                + ("set search.beam_size=5" if self.method == "greedy" else "remove search.temperature")
            )
        if self.method != "sample" and self.n_best > self.beam_size:
            raise UserError(f"search.n_best={self.n_best}: must be at most search.beam_size={self.beam_size}")
        if self.method != "sample" and self.top_k is not None:
            raise UserError(f"search.top_k={self.top_k}: needs sampling; set search.temperature as well")
        if self.lexicon is not None and not self.replace_unknown:
            raise UserError(f"search.lexicon={self.lexicon}: needs search.replace_unknown=true; add it")

    @property
    def banned(self) -> tuple[int, ...]:
        """The ids that no hypothesis may contain."""
        return tuple(piece for piece in BANNED if piece != UNK or not self.replace_unknown)

    @property
    def method(self) -> Literal["greedy", "beam", "sample"]:
        """The search method that these options select."""
        if self.temperature is not None:
            return "sample"
        return "greedy" if self.beam_size == 1 else "beam"

    @property
    def rewrites(self) -> bool:
        """Whether words of a finished translation are replaced."""
        return self.replace_unknown or self.glossary is not None or self.keep_placeholders

    def with_spares(self) -> SearchOptions:
        """Return options for a search that also returns the endings beyond ``n_best``.

        They replace those that spell the same text in other pieces. Samples are draws, which may be equal.
        """
        return replace(self, n_best=self.beam_size) if self.method == "beam" and self.n_best > 1 else self

    def limits(self, source_lengths: Integers) -> Integers:
        """Return the maximum target pieces (B,), without ``</s>``, for source lengths (B,) with ``</s>``."""
        if self.max_length is not None:
            return np.full_like(source_lengths, self.max_length)
        return np.minimum(2 * source_lengths + 10, MAX_LENGTH_CEILING)
