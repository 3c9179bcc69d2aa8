"""Draw sentences: statements, questions, subordinate clauses, joined clauses, and everything in them."""

from __future__ import annotations

import random

from scripts.grammar.lexicon import (
    FROM,
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
    WEATHER,
    WHO,
    WITH,
    WITHOUT,
    Adjective,
    Noun,
    Use,
    Vocabulary,
)
from scripts.grammar.tree import (
    CAN,
    COULD,
    MAY,
    MUST,
    SHOULD,
    WANT,
    WANTED,
    Both,
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
    Sentence,
    Subordinate,
)

CONJUNCTIONS = {
    "past": (
        ("because", "weil"), ("although", "obwohl"), ("when", "als"), ("before", "bevor"), ("until", "bis"),
        ("while", "während"),
    ),
    "present": (
        ("because", "weil"), ("although", "obwohl"), ("when", "wenn"), ("if", "wenn"), ("before", "bevor"),
        ("while", "während"), ("as soon as", "sobald"),
    ),
    "future": (("because", "weil"), ("if", "wenn"), ("when", "wenn"), ("as soon as", "sobald"), ("although", "obwohl")),
}  # fmt: skip
INTERROGATIVES = {"time": ("when", "wann"), "reason": ("why", "warum"), "place": ("where", "wo")}
LOCAL_PREPOSITIONS = {"in", "at", "on", "to", "into", "behind", "next to", "in front of"}
TIMES = ("past",) * 4 + ("present",) * 5 + ("future",) * 2
FREQUENCIES = {"acc": 9, "alone": 4, "dat": 3, "both": 4, "to": 2, "preposition": 4, "goal": 2, "place": 2, "be": 3}
SHAPES = tuple(shape for shape, count in FREQUENCIES.items() for _ in range(count))
# Clauses about the past use neither future nor perfect, and the others no simple past, so that the times agree.
TENSES: dict[str, tuple[str | Modal, ...]] = {
    "past": ("past",) * 7 + (COULD, WANTED),
    "present": ("present",) * 6 + ("perfect",) * 3 + (CAN, MUST, SHOULD, MAY, WANT),
    "within": ("present",) * 6 + ("perfect",) * 2 + (CAN, MUST, WANT),  # subordinate clauses: because, if, when …
    "future": ("future",) * 3 + ("present",),
}
POSSESSIVES = tuple(person.possessive[0] for person in PERSONS if person.possessive)
UNRESTRICTED = {"every", *POSSESSIVES}  # not: my friend who laughs
OWNED = {"animal", "thing", "clothing", "text", "vehicle", "inside", "opening", "machine", "dish"}
# The weight of a nominal limits the modifiers of its noun.
FULL = 2  # also a relative clause
SOME = 1  # an owner or a companion
BARE = 0  # none


class Sentences:
    """Draws sentences from a vocabulary; ``rng`` makes all choices. Times are past, present and future."""

    def __init__(self, rng: random.Random, vocabulary: Vocabulary) -> None:
        self.choice = rng.choice
        self.random = rng.random
        self.sample = rng.sample
        self.vocabulary = vocabulary

    def chance(self, probability: float) -> bool:
        """Return True with this probability."""
        return self.random() < probability

    def sentence(self) -> Sentence:
        """Draw a sentence."""
        chance = self.random()
        time = self.choice(TIMES)
        if chance < 0.38:
            node = self.clause(time, FULL)
            self.add_front(node)
            return Sentence(node)
        if chance < 0.60:
            return Sentence(self.with_subordinate(time))
        if chance < 0.72:
            return Sentence(self.with_content_clause(time))
        if chance < 0.79:
            return Sentence(self.with_infinitive(time))
        if chance < 0.91:
            return self.joined(time)
        return self.question(time)

    def add_front(self, node: Clause) -> None:
        """Begin with the time or an adverb; in German the subject then follows the verb, which stays second."""
        if node.time is not None and node.tense != "perfect" and self.chance(0.5):
            node.front, node.time = node.time, None
        elif node.time is None and self.chance(0.25):
            simple = isinstance(node.tense, str) and node.tense != "perfect"
            if self.chance(0.5) and node.frequency is None and simple:
                node.front = self.time_phrase(node, str(node.tense))
            else:
                node.front = Phrase(self.choice(self.vocabulary.opening))

    def with_subordinate(self, time: str) -> Clause:
        """Draw a main and a subordinate clause: She laughs because it rains. Because it rains, she laughs."""
        english, german = self.choice(CONJUNCTIONS[time])
        inner = Subordinate(english, german, self.clause("past" if time == "past" else "within", SOME))
        if english in {"before", "until"}:
            inner.clause.negated = False
            if inner.clause.tense == "perfect":
                inner.clause.tense, inner.clause.time = "present", None
        first = self.chance(0.45)
        node = self.clause(time, SOME)
        if first:
            node.front = inner
        else:
            self.add_front(node)
            node.after = inner
        return node

    def governing_clause(self, shape: str, time: str) -> Clause:
        """Draw a main clause that a dependent clause completes: she says …, he knows …, they try …"""
        verb = self.choice(self.vocabulary.uses[shape]).verb
        tense = self.choice(TENSES[time])
        node = Clause(self.nominal(verb.kinds, SOME), verb, tense)
        definite = not isinstance(node.subject, NounPhrase) or node.subject.determiner not in {"all", "every", "many"}
        node.negated = definite and tense is not MUST and self.chance(0.15)
        return node

    def with_content_clause(self, time: str) -> Clause:
        """Draw a that or whether clause: He knows that she laughs. They ask whether she laughs."""
        shape = self.choice(("that", "that", "whether"))
        node = self.governing_clause(shape, time)
        words = ("that", "dass") if shape == "that" else ("whether", "ob")
        inner_time = time if time == "past" or self.chance(0.6) else "future"
        node.after = Subordinate(*words, self.clause(inner_time, FULL))
        if self.chance(0.25):
            node.front = Phrase(self.choice(self.vocabulary.opening))
        return node

    def with_infinitive(self, time: str) -> Clause:
        """Draw an infinitive: She tries to open the door. Sie versucht, die Tür zu öffnen."""
        node = self.governing_clause("infinitive", time)
        shape = self.choice(("acc", "acc", "acc", "dat", "both", "alone", "goal", "preposition"))
        candidates = [
            use
            for use in self.vocabulary.uses[shape]
            if set(node.verb.kinds if node.verb else ()) <= set(use.verb.kinds)
        ]
        use = self.choice(candidates or self.vocabulary.uses[shape])
        inner = Clause(None, use.verb)
        self.add_objects(inner, use, SOME, plain=True)
        for nominal in (inner.accusative, inner.dative, inner.oblique.nominal if inner.oblique else None):
            if nominal is not None:
                self.avoid_reflexive(nominal, node.subject)
        node.after = inner
        if self.chance(0.3):
            node.front = Phrase(self.choice(self.vocabulary.opening))
        return node

    def joined(self, time: str) -> Sentence:
        """Draw two main clauses joined by "and" or "but"."""
        conjunction = self.choice((("and", "und"), ("but", "aber")))
        first = self.clause(time, SOME)
        self.add_front(first)
        return Sentence(first, conjunction=conjunction, second=self.clause(time, SOME))

    def question(self, time: str) -> Sentence:
        """Draw a question: Does she laugh? Where does she live? Who helps her?"""
        kind = self.choice(("", "", "who", "time", "reason", "place"))
        node = self.clause(time, SOME, final_adverbs=kind not in {"time", "place"})
        if kind == "who" and node.verb and "person" in node.verb.kinds:
            node.subject = Pronoun(WHO)
            return Sentence(node, mark="?")
        if kind == "place" and node.oblique and node.oblique.preposition.english in LOCAL_PREPOSITIONS:
            node.oblique = None  # "where" asks for it
        return Sentence(node, asked=INTERROGATIVES.get(kind, ("", "")), mark="?")

    def clause(self, time: str, weight: int, *, final_adverbs: bool = True) -> Clause:
        """Draw a clause. ``weight`` limits the modifiers of its nouns; ``final_adverbs`` allows adverbs at its end."""
        if self.chance(0.02):
            tense = "present" if time == "within" else time
            node = Clause(Pronoun(IT), self.choice(self.vocabulary.weather), tense)  # it rains, it snows
            self.add_adverbs(node, time, True)
            return node
        shape = self.choice(SHAPES)
        if shape == "be":
            return self.be_clause(time, weight)
        use = self.choice(self.vocabulary.uses[shape])
        polarity = self.random()
        plain = polarity < 0.2
        subject = self.nominal(use.verb.kinds, weight, plain=plain)
        node = Clause(subject, use.verb, self.choice(TENSES[time]), negated=plain)
        if node.tense is MUST:  # "must not" is not the negation of "must"
            node.negated = False
        self.add_objects(node, use, weight if self.chance(0.6) else SOME, plain)
        if plain and node.negated:  # "does not buy a book", kein Buch
            phrase = node.accusative or node.dative
            if isinstance(phrase, NounPhrase) and phrase.owner is None and self.chance(0.4):
                phrase.determiner = "" if phrase.plural or phrase.noun.plural is None else "a"
        elif 0.2 <= polarity < 0.26:
            for phrase in (node.subject, node.accusative, node.dative):
                if isinstance(phrase, NounPhrase) and phrase.can_take_no:
                    phrase.determiner = "no"
                    break
        self.add_adverbs(node, time, final_adverbs)
        return node

    def add_objects(self, node: Clause, use: Use, weight: int, plain: bool) -> None:
        """Draw the objects that the verb's frame requires."""
        frame = use.frame
        match frame.shape:
            case "acc":
                node.accusative = self.avoid_reflexive(self.nominal(frame.object, weight, plain=plain), node.subject)
            case "dat":
                node.dative = self.avoid_reflexive(self.nominal(frame.dative, weight, plain=plain), node.subject)
            case "both" | "to":
                node.dative = self.avoid_reflexive(self.nominal(frame.dative, BARE, plain=plain), node.subject)
                node.dative_with_to = frame.shape == "to" or self.chance(0.4)
                phrase = self.noun_phrase(self.noun(self.choice(frame.object)), BARE, plain=plain)
                if not phrase.determiner and not node.dative_with_to:
                    phrase.determiner = "the"  # "gives her letters" could be "ihre Briefe" or "ihr Briefe"
                node.accusative = phrase
            case "preposition":
                assert frame.preposition is not None
                nominal = self.avoid_reflexive(self.nominal(frame.object, weight, plain=plain), node.subject)
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
            return PrepositionalPhrase(IN, Name(*self.choice(self.vocabulary.cities)))
        kind = self.choice(PLACES)
        preposition = self.choice(NEAR) if self.chance(0.35) else PLACE_PREPOSITIONS[kind]
        return PrepositionalPhrase(preposition, self.noun_phrase(self.noun(kind), SOME, plain=plain))

    def goal(self, plain: bool) -> PrepositionalPhrase:
        """Draw where something goes: to Berlin, into the garden, to the station, to my friend."""
        if self.chance(0.25):
            return PrepositionalPhrase(TO_CITY, Name(*self.choice(self.vocabulary.cities)))
        kind = self.choice((*PLACES, "person"))
        preposition = INTO if kind == "inside" and self.chance(0.6) else TO
        return PrepositionalPhrase(preposition, self.noun_phrase(self.noun(kind), SOME, plain=plain))

    def be_clause(self, time: str, weight: int) -> Clause:
        """Draw a clause with "be": is (very) old, is older than X, is as old as X."""
        kind = self.choice(("person", "person", *self.vocabulary.nouns))
        subject = self.nominal((kind,), weight)
        tense = self.choice(("past", "past") if time == "past" else ("present", "present", "perfect"))
        node = Clause(subject, None, "future" if time == "future" else tense)
        compared = self.vocabulary.compared[kind]
        noun = self.noun(kind)
        same = isinstance(subject, NounPhrase) and subject.noun is noun
        if compared and not same and self.chance(0.45) and node.tense != "perfect":
            standard = self.noun_phrase(noun, BARE, plain=True)
            node.predicate = Predicate(self.choice(compared), compared=standard, equal=self.chance(0.4))
        else:
            degree = self.choice(self.vocabulary.degrees) if self.chance(0.5) else None
            node.predicate = Predicate(self.choice(self.vocabulary.adjectives[kind]), degree)
        definite = not isinstance(subject, NounPhrase) or subject.determiner in {"the", "this", "these", "my", "his"}
        node.negated = definite and self.chance(0.25)
        return node

    def add_adverbs(self, node: Clause, time: str, final_adverbs: bool) -> None:
        """Draw adverbs of manner, frequency and time. None comes last where it would belong to a relative clause."""
        draw, verb = self.vocabulary, node.verb
        final = final_adverbs and not node.ends_in_relative_clause
        objects = (node.accusative, node.dative)
        light = verb is not None and not all(objects)
        positive = not node.negated and not node.contains_no
        if positive and light and not isinstance(node.tense, Modal) and self.chance(0.2):
            node.frequency = Phrase(self.choice(draw.frequency))
            return
        definite = not any(isinstance(phrase, NounPhrase) and phrase.indefinite for phrase in objects)
        # One does it quickly or politely: not "rain", not "live somewhere".
        manner = verb is not None and verb.kinds != WEATHER and verb.frames[0].shape != "place"
        if final and light and positive and definite and manner and self.chance(0.16):
            node.manner = Phrase(self.choice(draw.manner))
        if final and self.chance(0.45):
            node.time = self.time_phrase(node, time)

    def time_phrase(self, node: Clause, time: str) -> Phrase:
        """Draw a time that agrees with the tense: yesterday with the past, tomorrow with the future."""
        times = self.vocabulary.times
        if node.tense == "perfect":
            groups = times["perfect"]
        elif self.chance(0.1):
            return Phrase(self.choice(self.vocabulary.hours))
        # "Not every day" would change the German word order: nicht jeden Tag.
        elif self.chance(0.4) or (node.negated and time in {"present", "within"}):
            groups = times["any"]
        else:
            groups = times["present" if time == "within" else time]
        return Phrase(self.choice(self.choice(groups)))

    def relative(self, noun: Noun, plural: bool) -> Relative:
        """Draw a clause about the noun: that the man saw, who laughs, in which we live."""
        use, role = self.choice(self.vocabulary.about[noun.kind])
        time = self.choice(("past", "present"))
        restrictive = self.chance(0.6)
        gap = Gap(PLURAL if plural else SINGULAR_THIRD)
        subject = gap if role == "subject" else self.nominal(use.verb.kinds, BARE, plain=True)
        node = Clause(subject, use.verb, self.choice(TENSES[time]))
        relative = Relative(node, role, restrictive)
        if role == "subject":
            self.add_objects(node, use, BARE, plain=True)
        elif use.frame.shape == "both":
            node.dative = self.avoid_reflexive(self.nominal(use.frame.dative, BARE, plain=True), node.subject)
            node.dative_with_to = True
        elif role == "place":
            relative.role = "oblique"
            relative.preposition = PLACE_PREPOSITIONS[noun.kind]
        elif role == "oblique":
            relative.preposition = use.frame.preposition
        if self.chance(0.15) and node.tense is not MUST:
            node.negated = True
        elif self.chance(0.3):
            node.time = self.time_phrase(node, time)
        return relative

    def nominal(self, kinds: tuple[str, ...], weight: int, *, plain: bool = False) -> Nominal:
        """Draw a nominal of one of these kinds. ``plain`` allows only definite determiners, as negated clauses need."""
        kind = self.choice(kinds)
        chance = self.random()
        if kind == "person":
            if chance < 0.14:
                return Pronoun(self.choice(PERSONS))
            if chance < 0.26:
                return Name(*(self.choice(self.vocabulary.names),) * 2)
            if chance < 0.32:
                names = self.sample(self.vocabulary.names, 2)
                return Both(Name(names[0], names[0]), Name(names[1], names[1]))
        if 0.32 < chance < 0.38 and weight:
            left, right = (self.noun_phrase(self.noun(kind), BARE, plain=True) for _ in range(2))
            if left.noun is not right.noun:
                return Both(left, right)
        return self.noun_phrase(self.noun(kind), weight, plain=plain)

    def noun(self, kind: str) -> Noun:
        """Draw a noun of this kind."""
        return self.choice(self.vocabulary.nouns[kind])

    def determiner(self, noun: Noun, plural: bool, plain: bool) -> str:
        """Draw the English determiner; an empty text means none."""
        chance = self.random()
        if chance < 0.45:
            return "the"
        if chance < 0.63 or plain or (noun.plural is None and chance < 0.7):
            return self.choice(POSSESSIVES) if chance < 0.85 else "these" if plural else "this"
        if noun.plural is None:
            return ""
        if plural:
            return "these" if chance < 0.68 else "all" if chance < 0.75 else "many" if chance < 0.83 else ""
        return "this" if chance < 0.68 else "every" if chance < 0.73 else "a"

    def adjectives(self, kind: str) -> tuple[Adjective, ...]:
        """Draw up to two adjectives that fit this kind of noun."""
        candidates = self.vocabulary.adjectives[kind]
        chance = self.random()
        if not candidates or chance < 0.45:
            return ()
        outward = self.vocabulary.outward[kind]
        inward = self.vocabulary.inward[kind]
        if chance < 0.9 or not outward or not inward:
            return (self.choice(candidates),)
        return (self.choice(outward), self.choice(inward))

    def noun_phrase(self, noun: Noun, weight: int, *, plain: bool = False) -> NounPhrase:
        """Draw the number, determiner, adjectives and modifiers of a noun."""
        plural = noun.plural is not None and self.chance(0.35)
        phrase = NounPhrase(noun, self.determiner(noun, plural, plain), plural, adjectives=self.adjectives(noun.kind))
        if plural and not plain and phrase.determiner in {"", "the"} and self.chance(0.45):
            phrase.numeral = self.choice(self.vocabulary.numerals)
        chance = self.random()
        if weight >= SOME and chance < 0.16:
            self.add_modifier(phrase)
        # A small vocabulary may have no verb that takes a drink.
        elif (
            weight == FULL
            and chance < 0.42
            and self.vocabulary.about[noun.kind]
            and phrase.determiner not in UNRESTRICTED
        ):
            phrase.relative = self.relative(noun, plural)
        return phrase

    def add_modifier(self, phrase: NounPhrase) -> None:
        """Give a thing an owner (the car of the old man); give a person a companion (with the red hat) or a city."""
        if phrase.noun.kind in OWNED and phrase.determiner == "the" and phrase.numeral is None:
            phrase.owner = self.noun_phrase(self.noun("person"), BARE, plain=True)
        elif phrase.noun.kind == "person":
            if self.chance(0.25):
                phrase.modifier = PrepositionalPhrase(FROM, Name(*self.choice(self.vocabulary.cities)))
                return
            preposition = WITH if self.chance(0.7) else WITHOUT
            noun = self.noun(self.choice(("clothing", "clothing", "animal", "thing", "opening")))
            phrase.modifier = PrepositionalPhrase(preposition, self.noun_phrase(noun, BARE, plain=True))
