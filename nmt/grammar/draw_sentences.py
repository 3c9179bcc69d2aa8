"""Draw sentences: statements, questions, subordinate clauses, joined clauses."""

from __future__ import annotations

import random

from nmt.grammar.draw_clauses import Clauses
from nmt.grammar.draw_nominals import FULL, SOME
from nmt.grammar.records import WHO
from nmt.grammar.tree import MUST, Clause, Modal, NounPhrase, Phrase, Pronoun, Sentence, Subordinate
from nmt.grammar.vocabulary import Vocabulary

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


class Sentences:
    """Draws sentences from a vocabulary; ``rng`` makes all choices."""

    def __init__(self, rng: random.Random, vocabulary: Vocabulary) -> None:
        self.rng = rng
        self.clauses = Clauses(rng, vocabulary)
        self.vocabulary = vocabulary

    def chance(self, probability: float) -> bool:
        """Return True with this probability."""
        return self.rng.random() < probability

    def sentence(self) -> Sentence:
        """Draw a sentence."""
        chance, time = self.rng.random(), self.rng.choice(TIMES)
        if chance < 0.38:
            node = self.clauses.clause(time, FULL)
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
            if self.chance(0.5) and node.frequency is None:
                time = "past" if node.tense == "past" else "future" if node.tense == "future" else "present"
                if not isinstance(node.tense, Modal) and node.tense != "perfect":
                    node.front = self.clauses.time_phrase(node, time)
                    return
            node.front = Phrase(self.rng.choice(self.vocabulary.opening))

    def with_subordinate(self, time: str) -> Clause:
        """Draw a main and a subordinate clause: She laughs because it rains. Because it rains, she laughs."""
        english, german = self.rng.choice(CONJUNCTIONS[time])
        inner = Subordinate(english, german, self.clauses.clause("past" if time == "past" else "within", SOME))
        if english in {"before", "until"}:
            inner.clause.negated = False
            if inner.clause.tense == "perfect":
                inner.clause.tense, inner.clause.time = "present", None
        first = self.chance(0.45)
        node = self.clauses.clause(time, SOME)
        if first:
            node.front = inner
        else:
            self.add_front(node)
            node.after = inner
        return node

    def governing_clause(self, shape: str, time: str) -> Clause:
        """Draw a main clause that a dependent clause completes: she says …, he knows …, they try …"""
        verb = self.rng.choice(self.vocabulary.uses[shape]).verb
        tense = self.clauses.tense(time)
        node = Clause(self.clauses.nominals.nominal(verb.kinds, SOME), verb, tense)
        definite = not isinstance(node.subject, NounPhrase) or node.subject.determiner not in {"all", "every", "many"}
        node.negated = definite and tense is not MUST and self.chance(0.15)
        return node

    def with_content_clause(self, time: str) -> Clause:
        """Draw a that or whether clause: He knows that she laughs. They ask whether she laughs."""
        shape = self.rng.choice(("that", "that", "whether"))
        node = self.governing_clause(shape, time)
        words = ("that", "dass") if shape == "that" else ("whether", "ob")
        inner_time = time if time == "past" or self.chance(0.6) else "future"
        node.after = Subordinate(*words, self.clauses.clause(inner_time, FULL))
        if self.chance(0.25):
            node.front = Phrase(self.rng.choice(self.vocabulary.opening))
        return node

    def with_infinitive(self, time: str) -> Clause:
        """Draw an infinitive: She tries to open the door. Sie versucht, die Tür zu öffnen."""
        node = self.governing_clause("infinitive", time)
        shape = self.rng.choice(("acc", "acc", "acc", "dat", "both", "alone", "goal", "preposition"))
        candidates = [
            use
            for use in self.vocabulary.uses[shape]
            if set(node.verb.kinds if node.verb else ()) <= set(use.verb.kinds)
        ]
        use = self.rng.choice(candidates or self.vocabulary.uses[shape])
        inner = Clause(None, use.verb)
        self.clauses.add_objects(inner, use, SOME, plain=True)
        for nominal in (inner.accusative, inner.dative, inner.oblique.nominal if inner.oblique else None):
            if nominal is not None:
                self.clauses.avoid_reflexive(nominal, node.subject)
        node.after = inner
        if self.chance(0.3):
            node.front = Phrase(self.rng.choice(self.vocabulary.opening))
        return node

    def joined(self, time: str) -> Sentence:
        """Draw two main clauses joined by "and" or "but"."""
        conjunction = self.rng.choice((("and", "und"), ("but", "aber")))
        first = self.clauses.clause(time, SOME)
        self.add_front(first)
        return Sentence(first, conjunction=conjunction, second=self.clauses.clause(time, SOME))

    def question(self, time: str) -> Sentence:
        """Draw a question: Does she laugh? Where does she live? Who helps her?"""
        kind = self.rng.choice(("", "", "who", "time", "reason", "place"))
        node = self.clauses.clause(time, SOME, final_adverbs=kind not in {"time", "place"})
        if kind == "who" and node.verb and "person" in node.verb.kinds:
            node.subject = Pronoun(WHO)
            return Sentence(node, mark="?")
        if kind == "place" and node.oblique and node.oblique.preposition.english in LOCAL_PREPOSITIONS:
            node.oblique = None  # "where" asks for it
        return Sentence(node, asked=INTERROGATIVES.get(kind, ("", "")), mark="?")
