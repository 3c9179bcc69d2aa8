"""Draws clauses: a verb in one of its frames, its tense, and what stands around it."""

from __future__ import annotations

import random

from nmt.tasks.grammar.draw_nominals import BARE, SOME, Nominals
from nmt.tasks.grammar.lexicon import (
    HE,
    IN,
    INTO,
    IT,
    NEAR,
    PERSONS,
    PLACES,
    PLURAL,
    SHE,
    SINGULAR_THIRD,
    TO,
    TO_CITY,
    WHERE,
    Noun,
    Verb,
)
from nmt.tasks.grammar.tree import (
    CAN,
    COULD,
    MAY,
    MUST,
    SHOULD,
    WANT,
    WANTED,
    Clause,
    Gap,
    Modal,
    Name,
    Nominal,
    NounPhrase,
    Phrase,
    Predicate,
    PrepositionalPhrase,
    Pronoun,
    Relative,
)
from nmt.tasks.grammar.vocabulary import Use, Vocabulary

SHAPES: tuple[str, ...] = (
    ("acc",) * 9 + ("alone",) * 4 + ("dat",) * 3 + ("both",) * 4 + ("to",) * 2 + ("preposition",) * 4
)
SHAPES += ("whither",) * 2 + ("where",) * 2 + ("be",) * 3
PRESENT_MODALS = (CAN, MUST, SHOULD, MAY, WANT)
PAST_MODALS = (COULD, WANTED)
# In clauses about the past: no will, no perfect. In the others: no simple past, so that times agree.
TENSES: dict[str, tuple[str | Modal, ...]] = {
    "past": ("past",) * 7 + PAST_MODALS,
    "present": ("present",) * 6 + ("perfect",) * 3 + PRESENT_MODALS[:4] + (WANT,),
    "within": ("present",) * 6 + ("perfect",) * 2 + (CAN, MUST, WANT),  # within because, if, when …
    "future": ("future",) * 3 + ("present",),
}


class Clauses:
    """Draws clauses of a given time (past, present, future) from a vocabulary."""

    def __init__(self, rng: random.Random, vocabulary: Vocabulary) -> None:
        self.rng = rng
        self.vocabulary = vocabulary
        self.nominals = Nominals(rng, vocabulary, self.relative)

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def tense(self, time: str) -> str | Modal:
        return self.rng.choice(TENSES[time])

    def clause(self, time: str, weight: int, *, settled: bool = False) -> Clause:
        """A whole clause; ``settled`` leaves no room at its end for adverbs, as before a clause that follows."""
        if self.chance(0.02):
            return self.weather(time)
        shape = self.rng.choice(SHAPES)
        if shape == "be":
            return self.state(time, weight)
        use = self.rng.choice(self.vocabulary.uses[shape])
        polarity = self.rng.random()
        plain = polarity < 0.2
        subject = self.nominals.nominal(use.verb.kinds, weight, plain=plain)
        node = Clause(subject, use.verb, self.tense(time), negated=plain)
        if node.tense is MUST:  # "must not" is not the negation of "must"
            node.negated = False
        self.fill(node, use, weight if self.chance(0.6) else SOME, plain)
        if plain and node.negated:
            self.make_indefinite(node)
        elif 0.2 <= polarity < 0.26:
            self.deny(node)
        self.surround(node, time, settled)
        return node

    def fill(self, node: Clause, use: Use, weight: int, plain: bool) -> None:
        """Give the verb the objects that its frame asks for."""
        frame, draw = use.frame, self.nominals
        match frame.shape:
            case "acc":
                node.accusative = self.other(draw.nominal(frame.object, weight, plain=plain), node.subject)
            case "dat":
                node.dative = self.other(draw.nominal(frame.dative, weight, plain=plain), node.subject)
            case "both" | "to":
                node.dative = self.other(draw.nominal(frame.dative, BARE, plain=plain), node.subject)
                node.dative_with_to = frame.shape == "to" or self.chance(0.4)
                thing = draw.noun_phrase(draw.noun(self.rng.choice(frame.object)), BARE, plain=plain)
                if not thing.determiner and not node.dative_with_to:
                    thing.determiner = "the"  # "gives her letters" could be "ihre Briefe" or "ihr Briefe"
                node.accusative = thing
            case "preposition":
                assert frame.preposition is not None
                nominal = self.other(draw.nominal(frame.object, weight, plain=plain), node.subject)
                node.oblique = PrepositionalPhrase(frame.preposition, nominal)
            case "where":
                node.oblique = self.place(plain)
            case "whither":
                node.oblique = self.goal(plain)

    def other(self, nominal: Nominal, subject: Nominal | None) -> Nominal:
        """Not the subject itself: "I see me" would need a reflexive."""
        if isinstance(nominal, Pronoun) and isinstance(subject, Pronoun):
            first = (PERSONS[0], PERSONS[3])
            if nominal.person is subject.person or (nominal.person in first and subject.person in first):
                nominal.person = SHE if subject.person is HE else HE
        return nominal

    def place(self, plain: bool) -> PrepositionalPhrase:
        """Where: in the garden, at the station, behind the house, in Berlin."""
        if self.chance(0.2):
            return PrepositionalPhrase(IN, Name(*self.rng.choice(self.vocabulary.cities)))
        kind = self.rng.choice(PLACES)
        preposition = self.rng.choice(NEAR) if self.chance(0.35) else WHERE[kind]
        draw = self.nominals
        return PrepositionalPhrase(preposition, draw.noun_phrase(draw.noun(kind), SOME, plain=plain))

    def goal(self, plain: bool) -> PrepositionalPhrase:
        """Whither: to Berlin, into the garden, to the station, to my friend."""
        if self.chance(0.25):
            return PrepositionalPhrase(TO_CITY, Name(*self.rng.choice(self.vocabulary.cities)))
        kind = self.rng.choice((*PLACES, "person"))
        preposition = INTO if kind == "inside" and self.chance(0.6) else TO
        draw = self.nominals
        return PrepositionalPhrase(preposition, draw.noun_phrase(draw.noun(kind), SOME, plain=plain))

    def make_indefinite(self, node: Clause) -> None:
        """Sometimes "does not buy a book": kein Buch."""
        thing = node.accusative or node.dative
        if isinstance(thing, NounPhrase) and thing.owner is None and self.chance(0.4):
            thing.determiner = "" if thing.plural or thing.noun.plural is None else "a"

    def deny(self, node: Clause) -> None:
        """Put "no" before the subject or an object."""
        for thing in (node.subject, node.accusative, node.dative):
            if isinstance(thing, NounPhrase) and (thing.indefinite or plainly_definite(thing)):
                thing.determiner = "no"
                return

    def state(self, time: str, weight: int) -> Clause:
        """Somebody or something is (very) old, older than somebody, as old as somebody."""
        kind = self.rng.choice(("person", "person", *self.vocabulary.nouns))
        subject = self.nominals.nominal((kind,), weight)
        tense = self.rng.choice(("past", "past") if time == "past" else ("present", "present", "perfect"))
        node = Clause(subject, None, "future" if time == "future" else tense)
        compared = self.vocabulary.compared[kind]
        other = self.nominals.noun(kind)
        same = isinstance(subject, NounPhrase) and subject.noun is other
        if compared and not same and self.chance(0.45) and node.tense != "perfect":
            than = self.nominals.noun_phrase(other, BARE, plain=True)
            node.predicate = Predicate(self.rng.choice(compared), compared=than, equal=self.chance(0.4))
        else:
            degree = self.rng.choice(self.vocabulary.degrees) if self.chance(0.5) else None
            node.predicate = Predicate(self.rng.choice(self.vocabulary.adjectives[kind]), degree)
        definite = not isinstance(subject, NounPhrase) or subject.determiner in {
            "the",
            "this",
            "these",
            "my",
            "his",
        }
        node.negated = definite and self.chance(0.25)
        return node

    def weather(self, time: str) -> Clause:
        node = Clause(Pronoun(IT), self.rng.choice(self.vocabulary.weather), "present" if time == "within" else time)
        self.surround(node, time, False)
        return node

    def surround(self, node: Clause, time: str, settled: bool) -> None:
        """Adverbs: how, how often, when; at the end only where no relative clause would swallow them."""
        draw, rng = self.vocabulary, self.rng
        closed = not settled and not open_ended(node)
        things = (node.accusative, node.dative)
        light = node.verb is not None and not all(things)
        positive = not node.negated and not says_no(node)
        if positive and light and not isinstance(node.tense, Modal) and self.chance(0.2):
            node.frequency = Phrase(rng.choice(draw.frequency))
            return
        definite = not any(isinstance(one, NounPhrase) and one.indefinite for one in things)
        if closed and light and positive and definite and self.active(node.verb) and self.chance(0.16):
            node.manner = Phrase(rng.choice(draw.manner))
        if closed and self.chance(0.45):
            node.time = self.when(node, time)

    def active(self, verb: Verb | None) -> bool:
        """Whether it can be done quickly or politely: not raining, not living somewhere."""
        return verb is not None and verb.kinds != ("weather",) and verb.frames[0].shape != "where"

    def when(self, node: Clause, time: str) -> Phrase:
        """A time that agrees with the tense: yesterday with the past, tomorrow with the future."""
        times = self.vocabulary.times
        if node.tense == "perfect":
            groups = times["perfect"]
        elif self.chance(0.1):
            return Phrase(self.rng.choice(self.vocabulary.hours))
        # "Not every day" would have to move: nicht jeden Tag.
        elif self.chance(0.4) or (node.negated and time in {"present", "within"}):
            groups = times["any"]
        else:
            groups = times["present" if time == "within" else time]
        return Phrase(self.rng.choice(self.rng.choice(groups)))

    def relative(self, noun: Noun, plural: bool) -> Relative:
        """A clause about the noun: that the man saw, who laughs, in which we live."""
        use, role = self.rng.choice(self.vocabulary.about[noun.kind])
        time = self.rng.choice(("past", "present"))
        restrictive = self.chance(0.6)
        gap = Gap(PLURAL if plural else SINGULAR_THIRD)
        if role == "subject":
            node = Clause(gap, use.verb, self.tense(time))
            self.fill(node, use, BARE, plain=True)
            return self.finish_relative(node, time, Relative(node, role, restrictive))
        node = Clause(self.nominals.nominal(use.verb.kinds, BARE, plain=True), use.verb, self.tense(time))
        relative = Relative(node, role, restrictive)
        if use.frame.shape == "both":
            node.dative = self.other(self.nominals.nominal(use.frame.dative, BARE, plain=True), node.subject)
            node.dative_with_to = True
        elif role == "where":
            relative.role, relative.preposition = "oblique", WHERE[noun.kind]
        elif role == "oblique":
            relative.preposition = use.frame.preposition
        return self.finish_relative(node, time, relative)

    def finish_relative(self, node: Clause, time: str, relative: Relative) -> Relative:
        if self.chance(0.15) and node.tense is not MUST:
            node.negated = True
        elif self.chance(0.3):
            node.time = self.when(node, time)
        return relative


def open_ended(node: Clause) -> bool:
    """Whether the clause ends in a restrictive relative clause, which would swallow an adverb after it."""
    last = node.oblique.nominal if node.oblique else node.accusative or node.dative
    if node.dative_with_to:
        last = node.dative
    return isinstance(last, NounPhrase) and last.relative is not None and last.relative.restrictive


def plainly_definite(phrase: NounPhrase) -> bool:
    return phrase.determiner == "the" and phrase.numeral is None and phrase.owner is None


def says_no(node: Clause) -> bool:
    things = (node.subject, node.accusative, node.dative)
    return any(isinstance(thing, NounPhrase) and thing.determiner == "no" for thing in things)
