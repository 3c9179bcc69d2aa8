"""The part of the lexicon that one corpus uses, sorted by what a drawing hand reaches for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from nmt.tasks.grammar import adverbials
from nmt.tasks.grammar.lexicon import (
    Adverbial,
    Frame,
    Verb,
    all_adjectives,
    all_nouns,
    all_verbs,
    fixed,
    pairs,
)

T = TypeVar("T")
# Of two adjectives the first is one of these and the second is not, so that nothing is both old and new.
OUTWARD = {"old", "young", "new", "big", "small", "long", "short"}


class Use(NamedTuple):
    """A verb in one of its frames."""

    verb: Verb
    frame: Frame


class Vocabulary:
    """The first ``share`` of every list (never fewer than two): a small corpus still shows each word often."""

    def __init__(self, share: float) -> None:
        self.share = share
        kinds = dict.fromkeys(noun.kind for noun in all_nouns())
        self.nouns = {kind: self._cut([one for one in all_nouns() if one.kind == kind]) for kind in kinds}
        self.adjectives = {kind: self._cut([one for one in all_adjectives() if kind in one.kinds]) for kind in kinds}
        self.outward = {
            kind: tuple(one for one in found if one.english in OUTWARD) for kind, found in self.adjectives.items()
        }
        self.inward = {
            kind: tuple(one for one in found if one.english not in OUTWARD) for kind, found in self.adjectives.items()
        }
        self.compared = {
            kind: tuple(one for one in adjectives if one.english_comparative)
            for kind, adjectives in self.adjectives.items()
        }
        self.uses = self._uses()
        self.about = {kind: self._about(kind) for kind in kinds}
        self.weather = [one for one in all_verbs() if one.kinds == ("weather",)]
        self.numerals = self._cut(pairs(adverbials.NUMBERS))
        self.degrees = self._cut(pairs(adverbials.DEGREES))
        self.cities = self._cut(pairs(adverbials.CITIES))
        self.names = self._cut(
            [name for two in zip(*map(str.split, adverbials.NAMES.values()), strict=True) for name in two]
        )
        self.manner = self._cut(fixed(adverbials.MANNER))
        self.frequency = self._cut(fixed(adverbials.FREQUENCY))
        self.opening = self._cut(fixed(adverbials.OPENING))
        self.hours = self._cut(fixed(adverbials.HOURS))
        self.times = {tense: self._rowwise(table) for tense, table in adverbials.TIME.items()}

    def _cut(self, things: Sequence[T]) -> tuple[T, ...]:
        return tuple(things[: max(2, round(len(things) * self.share))])

    def _rowwise(self, table: str) -> tuple[tuple[Adverbial, ...], ...]:
        """Groups of adverbials, one a row of the table, so that numbered rows are no likelier than others."""
        return tuple(self._cut(fixed(row)) for row in self._cut(table.strip().splitlines()))

    def _uses(self) -> dict[str, tuple[Use, ...]]:
        found: dict[str, list[Use]] = {}
        for one in all_verbs():
            for frame in one.frames:
                if one.kinds != ("weather",):
                    found.setdefault(frame.shape, []).append(Use(one, frame))
        return {shape: self._cut(uses) for shape, uses in found.items()}

    def _about(self, kind: str) -> tuple[tuple[Use, str], ...]:
        """What a relative clause can say about a noun of this kind, and the noun's role in it."""
        found: list[tuple[Use, str]] = []
        for shape, uses in self.uses.items():
            for use in uses:
                if kind in use.verb.kinds and shape in {
                    "alone",
                    "acc",
                    "dat",
                    "both",
                    "preposition",
                    "where",
                }:
                    found.append((use, "subject"))
                if shape == "where" and kind in {"inside", "beside", "upon"}:
                    found.append((use, "where"))
                role = {
                    "acc": "accusative",
                    "both": "accusative",
                    "dat": "dative",
                    "preposition": "oblique",
                }.get(shape)
                if role and kind in (use.frame.dative if shape == "dat" else use.frame.object):
                    found.append((use, role))
        return tuple(found)
