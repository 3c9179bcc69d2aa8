"""Draw clauses: a verb in one of its frames, a tense, objects and adverbs."""

from __future__ import annotations

import random

from nmt.grammar.draw_nominals import BARE, SOME, Nominals
from nmt.grammar.records import (
    HE,
    IN,
    INTO,
    IT,
    NEAR,
    PERSONS,
    PLACE_PREPOSITIONS,
    PLACES,
    PLURAL,
    SHE,
    SINGULAR_THIRD,
    TO,
    TO_CITY,
    Noun,
    Verb,
)
from nmt.grammar.tree import (
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
from nmt.grammar.vocabulary import Use, Vocabulary

SHAPES: tuple[str, ...] = (
    ("acc",) * 9 + ("alone",) * 4 + ("dat",) * 3 + ("both",) * 4 + ("to",) * 2 + ("preposition",) * 4
)
SHAPES += ("goal",) * 2 + ("place",) * 2 + ("be",) * 3
PRESENT_MODALS = (CAN, MUST, SHOULD, MAY, WANT)
PAST_MODALS = (COULD, WANTED)
# Clauses about the past use neither future nor perfect, and the others no simple past, so that the times agree.
TENSES: dict[str, tuple[str | Modal, ...]] = {
    "past": ("past",) * 7 + PAST_MODALS,
    "present": ("present",) * 6 + ("perfect",) * 3 + PRESENT_MODALS,
    "within": ("present",) * 6 + ("perfect",) * 2 + (CAN, MUST, WANT),  # subordinate clauses: because, if, when …
    "future": ("future",) * 3 + ("present",),
}


class Clauses:
    """Draws clauses of a given time (past, present, future) from a vocabulary."""

    def __init__(self, rng: random.Random, vocabulary: Vocabulary) -> None:
        self.rng = rng
        self.vocabulary = vocabulary
        self.nominals = Nominals(rng, vocabulary, self.relative)

    def chance(self, probability: float) -> bool:
        """Return True with this probability."""
        return self.rng.random() < probability

    def tense(self, time: str) -> str | Modal:
        """Draw a tense that agrees with the time."""
        return self.rng.choice(TENSES[time])

    def clause(self, time: str, weight: int, *, final_adverbs: bool = True) -> Clause:
        """Draw a clause. ``weight`` limits the modifiers of its nouns; ``final_adverbs`` allows adverbs at its end."""
        if self.chance(0.02):
            return self.weather_clause(time)
        shape = self.rng.choice(SHAPES)
        if shape == "be":
            return self.be_clause(time, weight)
        use = self.rng.choice(self.vocabulary.uses[shape])
        polarity = self.rng.random()
        plain = polarity < 0.2
        subject = self.nominals.nominal(use.verb.kinds, weight, plain=plain)
        node = Clause(subject, use.verb, self.tense(time), negated=plain)
        if node.tense is MUST:  # "must not" is not the negation of "must"
            node.negated = False
        self.add_objects(node, use, weight if self.chance(0.6) else SOME, plain)
        if plain and node.negated:
            self.make_indefinite(node)
        elif 0.2 <= polarity < 0.26:
            self.negate_with_no(node)
        self.add_adverbs(node, time, final_adverbs)
        return node

    def add_objects(self, node: Clause, use: Use, weight: int, plain: bool) -> None:
        """Draw the objects that the verb's frame requires."""
        frame, draw = use.frame, self.nominals
        match frame.shape:
            case "acc":
                node.accusative = self.avoid_reflexive(draw.nominal(frame.object, weight, plain=plain), node.subject)
            case "dat":
                node.dative = self.avoid_reflexive(draw.nominal(frame.dative, weight, plain=plain), node.subject)
            case "both" | "to":
                node.dative = self.avoid_reflexive(draw.nominal(frame.dative, BARE, plain=plain), node.subject)
                node.dative_with_to = frame.shape == "to" or self.chance(0.4)
                phrase = draw.noun_phrase(draw.noun(self.rng.choice(frame.object)), BARE, plain=plain)
                if not phrase.determiner and not node.dative_with_to:
                    phrase.determiner = "the"  # "gives her letters" could be "ihre Briefe" or "ihr Briefe"
                node.accusative = phrase
            case "preposition":
                assert frame.preposition is not None
                nominal = self.avoid_reflexive(draw.nominal(frame.object, weight, plain=plain), node.subject)
                node.oblique = PrepositionalPhrase(frame.preposition, nominal)
            case "place":
                node.oblique = self.place(plain)
            case "goal":
                node.oblique = self.goal(plain)

    def avoid_reflexive(self, nominal: Nominal, subject: Nominal | None) -> Nominal:
        """Change a pronoun that refers to the subject: "I see me" would need a reflexive."""
        if isinstance(nominal, Pronoun) and isinstance(subject, Pronoun):
            first = (PERSONS[0], PERSONS[3])
            if nominal.person is subject.person or (nominal.person in first and subject.person in first):
                nominal.person = SHE if subject.person is HE else HE
        return nominal

    def place(self, plain: bool) -> PrepositionalPhrase:
        """Draw where something is: in the garden, at the station, behind the house, in Berlin."""
        if self.chance(0.2):
            return PrepositionalPhrase(IN, Name(*self.rng.choice(self.vocabulary.cities)))
        kind = self.rng.choice(PLACES)
        preposition = self.rng.choice(NEAR) if self.chance(0.35) else PLACE_PREPOSITIONS[kind]
        draw = self.nominals
        return PrepositionalPhrase(preposition, draw.noun_phrase(draw.noun(kind), SOME, plain=plain))

    def goal(self, plain: bool) -> PrepositionalPhrase:
        """Draw where something goes: to Berlin, into the garden, to the station, to my friend."""
        if self.chance(0.25):
            return PrepositionalPhrase(TO_CITY, Name(*self.rng.choice(self.vocabulary.cities)))
        kind = self.rng.choice((*PLACES, "person"))
        preposition = INTO if kind == "inside" and self.chance(0.6) else TO
        draw = self.nominals
        return PrepositionalPhrase(preposition, draw.noun_phrase(draw.noun(kind), SOME, plain=plain))

    def make_indefinite(self, node: Clause) -> None:
        """Make the object of a negated clause indefinite with probability 0.4: "does not buy a book", kein Buch."""
        phrase = node.accusative or node.dative
        if isinstance(phrase, NounPhrase) and phrase.owner is None and self.chance(0.4):
            phrase.determiner = "" if phrase.plural or phrase.noun.plural is None else "a"

    def negate_with_no(self, node: Clause) -> None:
        """Put "no" before the subject or an object."""
        for phrase in (node.subject, node.accusative, node.dative):
            if isinstance(phrase, NounPhrase) and phrase.can_take_no:
                phrase.determiner = "no"
                return

    def be_clause(self, time: str, weight: int) -> Clause:
        """Draw a clause with "be": is (very) old, is older than X, is as old as X."""
        kind = self.rng.choice(("person", "person", *self.vocabulary.nouns))
        subject = self.nominals.nominal((kind,), weight)
        tense = self.rng.choice(("past", "past") if time == "past" else ("present", "present", "perfect"))
        node = Clause(subject, None, "future" if time == "future" else tense)
        compared = self.vocabulary.compared[kind]
        noun = self.nominals.noun(kind)
        same = isinstance(subject, NounPhrase) and subject.noun is noun
        if compared and not same and self.chance(0.45) and node.tense != "perfect":
            standard = self.nominals.noun_phrase(noun, BARE, plain=True)
            node.predicate = Predicate(self.rng.choice(compared), compared=standard, equal=self.chance(0.4))
        else:
            degree = self.rng.choice(self.vocabulary.degrees) if self.chance(0.5) else None
            node.predicate = Predicate(self.rng.choice(self.vocabulary.adjectives[kind]), degree)
        definite = not isinstance(subject, NounPhrase) or subject.determiner in {"the", "this", "these", "my", "his"}
        node.negated = definite and self.chance(0.25)
        return node

    def weather_clause(self, time: str) -> Clause:
        """Draw "it rains" or "it snows"."""
        node = Clause(Pronoun(IT), self.rng.choice(self.vocabulary.weather), "present" if time == "within" else time)
        self.add_adverbs(node, time, True)
        return node

    def add_adverbs(self, node: Clause, time: str, final_adverbs: bool) -> None:
        """Draw adverbs of manner, frequency and time. None comes last where it would belong to a relative clause."""
        draw, rng = self.vocabulary, self.rng
        final = final_adverbs and not node.ends_in_relative_clause
        objects = (node.accusative, node.dative)
        light = node.verb is not None and not all(objects)
        positive = not node.negated and not node.contains_no
        if positive and light and not isinstance(node.tense, Modal) and self.chance(0.2):
            node.frequency = Phrase(rng.choice(draw.frequency))
            return
        definite = not any(isinstance(phrase, NounPhrase) and phrase.indefinite for phrase in objects)
        if final and light and positive and definite and self.allows_manner(node.verb) and self.chance(0.16):
            node.manner = Phrase(rng.choice(draw.manner))
        if final and self.chance(0.45):
            node.time = self.time_phrase(node, time)

    def allows_manner(self, verb: Verb | None) -> bool:
        """Return whether one can do it quickly or politely: not "rain", not "live somewhere"."""
        return verb is not None and verb.kinds != ("weather",) and verb.frames[0].shape != "place"

    def time_phrase(self, node: Clause, time: str) -> Phrase:
        """Draw a time that agrees with the tense: yesterday with the past, tomorrow with the future."""
        times = self.vocabulary.times
        if node.tense == "perfect":
            groups = times["perfect"]
        elif self.chance(0.1):
            return Phrase(self.rng.choice(self.vocabulary.hours))
        # "Not every day" would change the German word order: nicht jeden Tag.
        elif self.chance(0.4) or (node.negated and time in {"present", "within"}):
            groups = times["any"]
        else:
            groups = times["present" if time == "within" else time]
        return Phrase(self.rng.choice(self.rng.choice(groups)))

    def relative(self, noun: Noun, plural: bool) -> Relative:
        """Draw a clause about the noun: that the man saw, who laughs, in which we live."""
        use, role = self.rng.choice(self.vocabulary.about[noun.kind])
        time = self.rng.choice(("past", "present"))
        restrictive = self.chance(0.6)
        gap = Gap(PLURAL if plural else SINGULAR_THIRD)
        if role == "subject":
            node = Clause(gap, use.verb, self.tense(time))
            self.add_objects(node, use, BARE, plain=True)
            return self.finish_relative(node, time, Relative(node, role, restrictive))
        node = Clause(self.nominals.nominal(use.verb.kinds, BARE, plain=True), use.verb, self.tense(time))
        relative = Relative(node, role, restrictive)
        if use.frame.shape == "both":
            node.dative = self.avoid_reflexive(self.nominals.nominal(use.frame.dative, BARE, plain=True), node.subject)
            node.dative_with_to = True
        elif role == "place":
            relative.role, relative.preposition = "oblique", PLACE_PREPOSITIONS[noun.kind]
        elif role == "oblique":
            relative.preposition = use.frame.preposition
        return self.finish_relative(node, time, relative)

    def finish_relative(self, node: Clause, time: str, relative: Relative) -> Relative:
        """Negate the relative clause or add a time, sometimes."""
        if self.chance(0.15) and node.tense is not MUST:
            node.negated = True
        elif self.chance(0.3):
            node.time = self.time_phrase(node, time)
        return relative
