"""Draw nominals: noun phrases, pronouns and names."""

from __future__ import annotations

import random
from collections.abc import Callable

from nmt.grammar.records import FROM, PERSONS, WITH, WITHOUT, Adjective, Noun
from nmt.grammar.tree import Both, Name, Nominal, NounPhrase, PrepositionalPhrase, Pronoun, Relative
from nmt.grammar.vocabulary import Vocabulary

POSSESSIVES = tuple(person.possessive[0] for person in PERSONS if person.possessive)
OWNED = {"animal", "thing", "clothing", "text", "vehicle", "inside", "opening", "machine", "dish"}
# The weight of a nominal limits the modifiers of its noun.
FULL = 2  # also a relative clause
SOME = 1  # an owner or a companion
BARE = 0  # none


class Nominals:
    """Draws nominals. ``relative`` draws a clause about a noun."""

    def __init__(self, rng: random.Random, vocabulary: Vocabulary, relative: Callable[[Noun, bool], Relative]) -> None:
        self.rng = rng
        self.vocabulary = vocabulary
        self.relative = relative

    def nominal(self, kinds: tuple[str, ...], weight: int, *, plain: bool = False) -> Nominal:
        """Draw a nominal of one of these kinds. ``plain`` allows only definite determiners, as negated clauses need."""
        kind = self.rng.choice(kinds)
        chance = self.rng.random()
        if kind == "person":
            if chance < 0.14:
                return self.pronoun()
            if chance < 0.26:
                return Name(*(self.rng.choice(self.vocabulary.names),) * 2)
            if chance < 0.32:
                names = self.rng.sample(self.vocabulary.names, 2)
                return Both(Name(names[0], names[0]), Name(names[1], names[1]))
        if 0.32 < chance < 0.38 and weight:
            left, right = (self.noun_phrase(self.noun(kind), BARE, plain=True) for _ in range(2))
            if left.noun is not right.noun:
                return Both(left, right)
        return self.noun_phrase(self.noun(kind), weight, plain=plain)

    def pronoun(self) -> Pronoun:
        """Draw a pronoun."""
        return Pronoun(self.rng.choice(PERSONS))

    def noun(self, kind: str) -> Noun:
        """Draw a noun of this kind."""
        return self.rng.choice(self.vocabulary.nouns[kind])

    def determiner(self, noun: Noun, plural: bool, plain: bool) -> str:
        """Draw the English determiner; an empty text means none."""
        chance = self.rng.random()
        if chance < 0.45:
            return "the"
        if chance < 0.63 or plain or (noun.plural is None and chance < 0.7):
            return self.rng.choice(POSSESSIVES) if chance < 0.85 else "these" if plural else "this"
        if noun.plural is None:
            return ""
        if plural:
            return "these" if chance < 0.68 else "all" if chance < 0.75 else "many" if chance < 0.83 else ""
        return "this" if chance < 0.68 else "every" if chance < 0.73 else "a"

    def adjectives(self, kind: str) -> tuple[Adjective, ...]:
        """Draw up to two adjectives that fit this kind of noun."""
        candidates = self.vocabulary.adjectives[kind]
        chance = self.rng.random()
        if not candidates or chance < 0.45:
            return ()
        outward, inward = self.vocabulary.outward[kind], self.vocabulary.inward[kind]
        if chance < 0.9 or not outward or not inward:
            return (self.rng.choice(candidates),)
        return (self.rng.choice(outward), self.rng.choice(inward))

    def noun_phrase(self, noun: Noun, weight: int, *, plain: bool = False) -> NounPhrase:
        """Draw the number, determiner, adjectives and modifiers of a noun."""
        plural = noun.plural is not None and self.rng.random() < 0.35
        phrase = NounPhrase(noun, self.determiner(noun, plural, plain), plural, adjectives=self.adjectives(noun.kind))
        if plural and not plain and phrase.determiner in {"", "the"} and self.rng.random() < 0.45:
            phrase.numeral = self.rng.choice(self.vocabulary.numerals)
        chance = self.rng.random()
        if weight >= SOME and chance < 0.16:
            self.add_modifier(phrase)
        # A small vocabulary may have no verb that takes a drink.
        elif weight == FULL and chance < 0.42 and self.vocabulary.about[noun.kind] and allows_relative_clause(phrase):
            phrase.relative = self.relative(noun, plural)
        return phrase

    def add_modifier(self, phrase: NounPhrase) -> None:
        """Give a thing an owner (the car of the old man); give a person a companion (with the red hat) or a city."""
        if phrase.noun.kind in OWNED and phrase.determiner == "the" and phrase.numeral is None:
            phrase.owner = self.noun_phrase(self.noun("person"), BARE, plain=True)
        elif phrase.noun.kind == "person":
            if self.rng.random() < 0.25:
                phrase.modifier = PrepositionalPhrase(FROM, Name(*self.rng.choice(self.vocabulary.cities)))
                return
            preposition = WITH if self.rng.random() < 0.7 else WITHOUT
            noun = self.noun(self.rng.choice(("clothing", "clothing", "animal", "thing", "opening")))
            phrase.modifier = PrepositionalPhrase(preposition, self.noun_phrase(noun, BARE, plain=True))


def allows_relative_clause(phrase: NounPhrase) -> bool:
    """Return whether a relative clause fits the determiner: not "my friend who laughs"."""
    return phrase.determiner not in {"every", *POSSESSIVES}
