"""Options of a search, checked when they are created."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal

import numpy as np

from nmt.errors import UserError
from nmt.search.engine import BANNED, Integers
from nmt.settings.arguments import AtLeast, AtMost, Count, TypeCheck, type_hints
from nmt.settings.build import PYTHON_ONLY
from nmt.text.sentences import AUTO
from nmt.text.specials import BOS, EOS, PAD

MAX_LENGTH_CEILING = 1000
"""Maximum number of target pieces of any translation, however long its source."""
BEAM_SIZE = 5
LANGUAGE = r"[A-Za-z]{2,3}(?:[-_]\w+)*"

REWRITES = ("replace_unknown", "glossary", "terms", "keep", "keep_numbers")
"""The options that change finished translations. They need an attention, and the words of the source.

So does ``keep_placeholders``, which is on by default, and has no effect where there are none.
"""
ALIGNING = ("coverage_penalty", *REWRITES)
"""The options that need an attention."""


Length = Annotated[float, AtLeast(0), AtMost(10**9)]  # finite, and far above what any text has
LengthModel = tuple[Length, Length]


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """Options of a search: beam by default, greedy with ``beam_size=1``, sampling with a ``temperature``.

    Raises UserError, which names the option, its value and the fix.
    """

    beam_size: Annotated[int, AtLeast(1), AtMost(1000)] = BEAM_SIZE
    """Live hypotheses per sentence (N)."""
    length_penalty: Annotated[float, AtLeast(0), AtMost(100)] = 1.0
    """alpha of Wu et al. 2016; 0 ranks by plain log-probability."""
    coverage_penalty: Annotated[float, AtLeast(0), AtMost(1000)] = 0.0
    """beta of Wu et al. 2016: the cost of source pieces that got little attention; 0: off."""
    n_best: Annotated[int, AtLeast(1), AtMost(10_000)] = 1
    """Maximum translations per sentence, best first, with different texts; when sampling, the number of draws."""
    min_length: Annotated[int, AtLeast(0), AtMost(MAX_LENGTH_CEILING)] = 1
    """Minimum target pieces, without ``</s>``; 0 allows an empty translation."""
    max_length: Annotated[int, AtLeast(1), AtMost(MAX_LENGTH_CEILING)] | None = None
    """Maximum target pieces, without ``</s>``; null: ``length_model``, or 2·S + 10. S counts ``</s>``. At most 1000."""
    max_length_ratio: Annotated[float, AtLeast(0.01), AtMost(1000)] | None = None
    """Maximum target pieces per source piece, ``</s>`` included there; null: see ``max_length``."""
    temperature: Annotated[float, AtLeast(0.001), AtMost(1000)] | None = None
    """Sample instead of searching: values below 1 sharpen the distribution, above 1 flatten it; null: off."""
    top_k: Count | None = None
    """Sample from the k most likely pieces only; null: from all."""
    top_p: Annotated[float, AtLeast(0.0001), AtMost(1)] | None = None
    """Sample from the fewest likeliest pieces that together have this probability; null: from all."""
    mbr: Annotated[int, AtLeast(2), AtMost(10_000)] | None = None
    """Number of draws, or of the beam's translations, among which the one with the highest mean chrF against the others
    is chosen (minimum Bayes risk)."""
    seed: Annotated[int, AtLeast(0)] = 1
    """Seed of the draws. They depend on it and on the sentence, not on other sentences of the batch."""
    replace_unknown: bool = False
    """Allow ``<unk>``, and write the source word that it aligns to in its place. For tokenizers without bytes."""
    glossary: str | None = None
    """File of source terms, a tab and what a translation must write for them; null: none."""
    keep_placeholders: bool = True
    """Keep what no language has, such as ``{name}``, ``%s``, addresses, emoji and lines without letters."""
    keep_numbers: bool = False
    """Keep numbers with their signs, currencies and units."""
    keep: str | None = None
    """Regular expression of further text to keep; null: none."""
    sentences: str | None = AUTO
    """Translate each sentence of a line on its own. ``auto``: if the training text had single ones; a language of the
    source, such as ``en``: always, by its rules; null: whole lines."""
    terms: Mapping[str, str] | None = field(default=None, metadata=PYTHON_ONLY)
    """Source terms and what a translation must write for them, as in a ``glossary``, which they precede."""
    length_model: LengthModel | None = field(default=None, metadata=PYTHON_ONLY)
    """m and v: a target has at most m·S + 4 √(v·S) + 10 pieces. A translator sets the values of its model."""
    keep_weights: bool = field(default=False, metadata=PYTHON_ONLY)
    """Return read weights and alignment with each hypothesis. For Python callers, not for configurations."""

    def __post_init__(self) -> None:
        for name, hint in type_hints(SearchOptions, include_extras=True).items():
            value = getattr(self, name)
            if value is getattr(SearchOptions, name):  # its default: translators replace options for every call
                continue
            for problem in TypeCheck().problems(value, hint, f"search.{name}"):
                raise UserError(problem)
        for name, is_wrong, problem in self._rules():
            if is_wrong:
                raise UserError(f"search.{name}={getattr(self, name)!s:.80}: {problem}")

    def _rules(self) -> Iterator[tuple[str, bool, str]]:
        """Yield options that other options can forbid, whether they do, and the problem with its fix."""
        sample, beam = self.method == "sample", self.method == "beam"
        at_most_beam = f"must be at most search.beam_size={self.beam_size}"
        language = self.sentences in (None, AUTO) or re.fullmatch(LANGUAGE, str(self.sentences))
        yield "coverage_penalty", self.coverage_penalty > 0 and not beam, "needs beam search; remove it"
        for name, off in (("top_k", None), ("top_p", None), ("seed", 1)):
            is_set = getattr(self, name) != off
            yield name, is_set and not sample, "needs sampling; set search.temperature as well"
        yield "beam_size", sample and self.beam_size != BEAM_SIZE, "samples need no beam; remove search.temperature="
        yield "n_best", not sample and self.n_best > self.beam_size, at_most_beam
        longest = self.max_length or MAX_LENGTH_CEILING
        yield "min_length", self.min_length > longest, f"must be at most search.max_length={longest}"
        if self.mbr is not None:
            yield "mbr", self.method == "greedy", "needs several translations; set search.temperature=1 as well"
            yield "mbr", beam and self.mbr > self.beam_size, f"{at_most_beam}, unless search.temperature draws samples"
            yield "n_best", self.n_best > self.mbr, f"must be at most search.mbr={self.mbr}"
        yield "terms", not isinstance(self.terms, Mapping | None), "must be a mapping of source terms to texts, or None"
        yield "sentences", not language, "not the code of a language; write one such as en or de, auto, or null"

    def banned(self, length: int) -> tuple[int, ...]:
        """Return the ids that cannot follow a hypothesis of ``length`` pieces."""
        banned = (PAD, BOS) if self.replace_unknown else BANNED
        return (*banned, EOS) if length < self.min_length else banned

    @property
    def method(self) -> Literal["greedy", "beam", "sample"]:
        """The search method that these options select."""
        if self.temperature is not None:
            return "sample"
        return "greedy" if self.beam_size == 1 else "beam"

    @property
    def rewrites(self) -> bool:
        """Whether words of a finished translation are replaced."""
        return any(self.settings(REWRITES))

    def settings(self, names: Iterable[str]) -> Iterator[str]:
        """Yield each of the options ``names`` that is on, such as ``search.replace_unknown=true``, but not ``auto``."""
        for name in names:
            if (value := getattr(self, name)) and (name, value) != ("sentences", AUTO):
                yield f"search.{name}={str(value).replace('True', 'true')}"

    def require_one_best(self, reason: str) -> None:
        """Raise UserError with the ``reason`` if more than the best translation is wanted."""
        if self.n_best > 1:
            raise UserError(f"search.n_best={self.n_best}: {reason}; remove search.n_best=")

    def with_spares(self) -> SearchOptions:
        """Return options for a search that also returns the endings beyond ``n_best``.

        They replace those that spell the same text in other pieces, or are candidates for ``mbr``. Samples are draws,
        which may be equal.
        """
        if self.mbr is not None:
            return replace(self, n_best=self.mbr)
        return replace(self, n_best=self.beam_size) if self.method == "beam" and self.n_best > 1 else self

    def with_best(self, count: int) -> SearchOptions:
        """Return options that find ``count`` translations of a line."""
        beam_size = self.beam_size if self.method == "sample" else max(self.beam_size, count)
        return replace(self, n_best=count, beam_size=beam_size, mbr=self.mbr and max(self.mbr, count))

    def limits(self, source_lengths: Integers) -> Integers:
        """Return the maximum target pieces (B,), without ``</s>``, for source lengths (B,) with ``</s>``."""
        if (ratio := self.max_length_ratio) is not None:
            limits = np.ceil(ratio * source_lengths - 1e-9).astype(np.int64)  # 1.1 × 10 is a little above 11
        elif self.max_length is not None:
            limits = np.full_like(source_lengths, self.max_length)
        elif self.length_model is not None:
            ratio, variance = self.length_model
            limits = np.ceil(ratio * source_lengths + 4 * np.sqrt(variance * source_lengths) + 10).astype(np.int64)
        else:
            limits = 2 * source_lengths + 10
        at_least: Integers = np.maximum(limits, self.min_length)  # np.clip takes four times as long for a few numbers
        return np.minimum(at_least, self.max_length or MAX_LENGTH_CEILING)
