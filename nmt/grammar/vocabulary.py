"""The part of the lexicon that a corpus uses, grouped by what is drawn together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from nmt.grammar import adverbials
from nmt.grammar.lexicon import all_adjectives, all_nouns, all_verbs, read_adverbials, read_translations
from nmt.grammar.records import PLACES, Adjective, Adverbial, Frame, Verb

T = TypeVar("T")
# Only the first of two adjectives comes from this set, so that nothing is both old and new.
OUTWARD = {"old", "young", "new", "big", "small", "long", "short"}
OBJECT_ROLES = {"acc": "accusative", "both": "accusative", "dat": "dative", "preposition": "oblique"}


class Use(NamedTuple):
    """A verb with one of its frames."""

    verb: Verb
    frame: Frame


class Vocabulary:
    """The first ``share`` of each list, at least two entries, so that a small corpus still shows each word often."""

    def __init__(self, share: float) -> None:
        self.share = share
        kinds = dict.fromkeys(noun.kind for noun in all_nouns())
        self.nouns = {kind: self._cut([noun for noun in all_nouns() if noun.kind == kind]) for kind in kinds}
        self.adjectives = {
            kind: self._cut([adjective for adjective in all_adjectives() if kind in adjective.kinds]) for kind in kinds
        }
        self.outward = self._adjectives_if(lambda adjective: adjective.english in OUTWARD)
        self.inward = self._adjectives_if(lambda adjective: adjective.english not in OUTWARD)
        self.compared = self._adjectives_if(lambda adjective: adjective.english_comparative is not None)
        self.uses = self._uses()
        self.about = {kind: self._about(kind) for kind in kinds}
        self.weather = [verb for verb in all_verbs() if verb.kinds == ("weather",)]
        self.numerals = self._cut(read_translations(adverbials.NUMBERS))
        self.degrees = self._cut(read_translations(adverbials.DEGREES))
        self.cities = self._cut(read_translations(adverbials.CITIES))
        self.names = self._cut(
            [name for names in zip(*map(str.split, adverbials.NAMES.values()), strict=True) for name in names]
        )
        self.manner = self._cut(read_adverbials(adverbials.MANNER))
        self.frequency = self._cut(read_adverbials(adverbials.FREQUENCY))
        self.opening = self._cut(read_adverbials(adverbials.OPENING))
        self.hours = self._cut(read_adverbials(adverbials.HOURS))
        self.times = {tense: self._rows(table) for tense, table in adverbials.TIME.items()}

    def _cut(self, entries: Sequence[T]) -> tuple[T, ...]:
        return tuple(entries[: max(2, round(len(entries) * self.share))])

    def _adjectives_if(self, condition: Callable[[Adjective], bool]) -> dict[str, tuple[Adjective, ...]]:
        return {kind: tuple(filter(condition, adjectives)) for kind, adjectives in self.adjectives.items()}

    def _rows(self, table: str) -> tuple[tuple[Adverbial, ...], ...]:
        """Return one group of adverbials per row, so that a row with NUMBER is as likely as any other."""
        return tuple(self._cut(read_adverbials(row)) for row in self._cut(table.strip().splitlines()))

    def _uses(self) -> dict[str, tuple[Use, ...]]:
        by_shape: dict[str, list[Use]] = {}
        for verb in all_verbs():
            for frame in verb.frames:
                if verb.kinds != ("weather",):
                    by_shape.setdefault(frame.shape, []).append(Use(verb, frame))
        return {shape: self._cut(uses) for shape, uses in by_shape.items()}

    def _about(self, kind: str) -> tuple[tuple[Use, str], ...]:
        """Return the verbs that a relative clause about this kind of noun can have, each with the noun's role."""
        pairs: list[tuple[Use, str]] = []
        for shape, uses in self.uses.items():
            for use in uses:
                if kind in use.verb.kinds and shape in {"alone", "acc", "dat", "both", "preposition", "place"}:
                    pairs.append((use, "subject"))
                if shape == "place" and kind in PLACES:
                    pairs.append((use, "place"))
                role = OBJECT_ROLES.get(shape)
                if role and kind in (use.frame.dative if shape == "dat" else use.frame.object):
                    pairs.append((use, role))
        return tuple(pairs)
