"""Language-neutral sentence trees, which ``english`` and ``german`` both realise.

Each node reserves sixteen leaf numbers, starting at its ``leaf``: one for each part of its meaning (determiner, noun,
finite verb, …). The enumerations name their offsets; a node that has none has one leaf. A word is its text and the
numbers of the leaves that it expresses. Words that share a leaf number are linked.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from enum import IntEnum
from functools import partial
from typing import TypeAlias

from scripts.grammar.lexicon import PLURAL, SINGULAR_THIRD, Adjective, Adverbial, Noun, Person, Preposition, Verb

Word: TypeAlias = tuple[str, tuple[int, ...]]


class NounLeaf(IntEnum):
    """Leaves of a noun phrase. ``OF`` stands before the owner."""

    DETERMINER, NUMERAL, ADJECTIVE, SECOND_ADJECTIVE, NOUN, OF = range(6)


class ClauseLeaf(IntEnum):
    """Leaves of a clause. ``TO`` stands before an infinitive, ``COMMA`` after a clause in front."""

    AUXILIARY, VERB, PARTICLE, NOT, TO, COMMA = range(6)


class PredicateLeaf(IntEnum):
    """Leaves of a predicate: the degree or the first ``as``, the adjective, ``than`` or the second ``as``."""

    DEGREE, ADJECTIVE, THAN = range(3)


class RelativeLeaf(IntEnum):
    """Leaves of a relative clause."""

    PRONOUN, OPENING_COMMA, CLOSING_COMMA, PREPOSITION = range(4)


class SentenceLeaf(IntEnum):
    """Leaves of a sentence. ``COMMA`` stands before the conjunction."""

    MARK, CONJUNCTION, COMMA, INTERROGATIVE = range(4)


@dataclass(slots=True, eq=False, kw_only=True)
class Node:
    """A part of a tree, with its first leaf number."""

    leaf: int = field(default_factory=partial(next, itertools.count(step=16)))

    def word(self, text: str, offset: int = 0) -> Word:
        """Return a word that expresses one leaf of this node."""
        return text, (self.leaf + offset,)

    def split(self, text: str, offset: int = 0) -> list[Word]:
        """Return the words of a text; each expresses the same leaf."""
        return [self.word(word, offset) for word in text.split()]


@dataclass(slots=True, eq=False)
class NounPhrase(Node):
    """A noun and its modifiers."""

    noun: Noun
    determiner: str = "the"
    plural: bool = False
    numeral: tuple[str, str] | None = None
    adjectives: tuple[Adjective, ...] = ()
    owner: NounPhrase | None = None
    modifier: PrepositionalPhrase | None = None
    relative: Relative | None = None

    @property
    def number(self) -> int:
        return PLURAL if self.plural else SINGULAR_THIRD

    @property
    def indefinite(self) -> bool:
        return self.determiner in {"a", ""} and self.numeral is None

    @property
    def can_take_no(self) -> bool:
        """Whether "no" can replace the determiner."""
        plain = self.determiner == "the" and self.numeral is None and self.owner is None
        return self.indefinite or plain


@dataclass(slots=True, eq=False)
class Pronoun(Node):
    """A personal pronoun."""

    person: Person

    @property
    def number(self) -> int:
        return self.person.number


@dataclass(slots=True, eq=False)
class Name(Node):
    """The name of a person or a city."""

    english: str
    german: str
    number: int = SINGULAR_THIRD


@dataclass(slots=True, eq=False)
class Both(Node):
    """Two nominals joined by ``and``, the leaf."""

    left: NounPhrase | Name
    right: NounPhrase | Name
    number: int = PLURAL


@dataclass(slots=True, eq=False)
class Gap:
    """The subject of a relative clause whose pronoun is the subject: no words, but the verb agrees with its number."""

    number: int


Nominal: TypeAlias = NounPhrase | Pronoun | Name | Both | Gap


@dataclass(slots=True, eq=False)
class PrepositionalPhrase(Node):
    """A preposition, the leaf, and its nominal."""

    preposition: Preposition
    nominal: Nominal


@dataclass(slots=True, eq=False)
class Phrase(Node):
    """An adverb or fixed phrase, with one leaf for each link."""

    adverbial: Adverbial

    def words(self, side: int) -> list[Word]:
        """Return the words of a language (0 English, 1 German)."""
        texts = (self.adverbial.english, self.adverbial.german)[side]
        leaves: list[tuple[int, ...]] = [()] * len(texts)
        for leaf, link in enumerate(self.adverbial.links, self.leaf):
            leaves[link[side]] += (leaf,)
        return list(zip(texts, leaves, strict=True))


@dataclass(slots=True, eq=False)
class Predicate(Node):
    """An adjective after ``be``: (very) old; older than X; as old as X."""

    adjective: Adjective
    degree: tuple[str, str] | None = None
    compared: Nominal | None = None
    equal: bool = False


@dataclass(frozen=True, slots=True)
class Modal:
    """A modal verb: English and German finite forms (first, third person, plural), and whether ``to`` follows."""

    english: tuple[str, str, str]
    german: tuple[str, str, str]
    takes_to: bool


@dataclass(slots=True, eq=False)
class Clause(Node):
    """A verb with its subject, objects and adverbs.

    ``verb`` is None for ``be``, ``subject`` is None for an infinitive. The first leaf is the finite auxiliary.
    """

    subject: Nominal | None
    verb: Verb | None
    tense: str | Modal = "present"
    negated: bool = False
    accusative: Nominal | None = None
    dative: Nominal | None = None
    dative_with_to: bool = False
    predicate: Predicate | None = None
    oblique: PrepositionalPhrase | None = None
    frequency: Phrase | None = None
    manner: Phrase | None = None
    time: Phrase | None = None
    front: Phrase | Subordinate | None = None
    after: Subordinate | Clause | None = None

    @property
    def contains_no(self) -> bool:
        """Whether the subject or an object has the determiner "no"."""
        phrases = (self.subject, self.accusative, self.dative)
        return any(isinstance(phrase, NounPhrase) and phrase.determiner == "no" for phrase in phrases)

    @property
    def verb_leaves(self) -> tuple[int, int]:
        """Leaves of the verb and its particle, which one word may express."""
        return self.leaf + ClauseLeaf.VERB, self.leaf + ClauseLeaf.PARTICLE

    @property
    def ends_in_relative_clause(self) -> bool:
        """Whether it ends in a restrictive relative clause: an adverb after that would belong to the wrong clause."""
        last = self.oblique.nominal if self.oblique else self.accusative or self.dative
        if self.dative_with_to:
            last = self.dative
        return isinstance(last, NounPhrase) and last.relative is not None and last.relative.restrictive


@dataclass(slots=True, eq=False)
class Subordinate(Node):
    """A conjunction, whose words share the leaf, and a verb-final clause."""

    english: str
    german: str
    clause: Clause


@dataclass(slots=True, eq=False)
class Relative(Node):
    """A clause about a noun.

    ``role`` of the noun in it: subject, accusative, dative or oblique (with ``preposition``).
    """

    clause: Clause
    role: str
    restrictive: bool = True
    preposition: Preposition | None = None


@dataclass(slots=True, eq=False)
class Sentence(Node):
    """One clause, or two joined by a conjunction.

    ``asked`` is None for a statement, a pair of empty strings for a yes/no question, else the interrogative.
    """

    clause: Clause
    asked: tuple[str, str] | None = None
    conjunction: tuple[str, str] | None = None
    second: Clause | None = None
    mark: str = "."


def _modal(english: str, singular: str, plural: str, third: str | None = None) -> Modal:
    return Modal((english, third or english, english), (singular, singular, plural), english.startswith("want"))


CAN = _modal("can", "kann", "können")
COULD = _modal("could", "konnte", "konnten")
MUST = _modal("must", "muss", "müssen")
SHOULD = _modal("should", "sollte", "sollten")
MAY = _modal("may", "darf", "dürfen")
WANT = _modal("want", "will", "wollen", "wants")
WANTED = _modal("wanted", "wollte", "wollten")
