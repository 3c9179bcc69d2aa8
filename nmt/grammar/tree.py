"""Language-neutral sentence trees, which ``english`` and ``german`` both realise.

Each node reserves sixteen leaf numbers, starting at its ``leaf``: one for each part of its meaning (determiner, noun,
finite verb, …). The class docstrings list the leaves as offsets. A word is its text and the numbers of the leaves that
it expresses. Words that share a leaf number are linked.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TypeAlias

from nmt.grammar.records import PLURAL, SINGULAR_THIRD, Adjective, Adverbial, Noun, Person, Preposition, Verb

Word: TypeAlias = tuple[str, tuple[int, ...]]
_leaf_numbers = itertools.count(step=16)


def _new_leaf() -> int:
    return next(_leaf_numbers)


@dataclass(slots=True, eq=False)
class NounPhrase:
    """A noun and its modifiers. Leaves: 0 determiner, 1 numeral, 2 and 3 adjectives, 4 noun, 5 "of" before the owner."""

    noun: Noun
    determiner: str = "the"
    plural: bool = False
    numeral: tuple[str, str] | None = None
    adjectives: tuple[Adjective, ...] = ()
    owner: NounPhrase | None = None
    modifier: PrepositionalPhrase | None = None
    relative: Relative | None = None
    leaf: int = field(default_factory=_new_leaf)

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
class Pronoun:
    """A personal pronoun. Leaf: 0."""

    person: Person
    leaf: int = field(default_factory=_new_leaf)

    @property
    def number(self) -> int:
        return self.person.number


@dataclass(slots=True, eq=False)
class Name:
    """The name of a person or a city. Leaf: 0."""

    english: str
    german: str
    leaf: int = field(default_factory=_new_leaf)
    number: int = SINGULAR_THIRD


@dataclass(slots=True, eq=False)
class Both:
    """Two nominals joined by ``and``. Leaf: 0 the conjunction."""

    left: NounPhrase | Name
    right: NounPhrase | Name
    leaf: int = field(default_factory=_new_leaf)
    number: int = PLURAL


@dataclass(slots=True, eq=False)
class Gap:
    """The subject of a relative clause whose pronoun is the subject: no words, but the verb agrees with its number."""

    number: int


Nominal: TypeAlias = NounPhrase | Pronoun | Name | Both | Gap


@dataclass(slots=True, eq=False)
class PrepositionalPhrase:
    """A preposition and its nominal. Leaf: 0 the preposition."""

    preposition: Preposition
    nominal: Nominal
    leaf: int = field(default_factory=_new_leaf)


@dataclass(slots=True, eq=False)
class Phrase:
    """An adverb or fixed phrase. Leaves: one for each link of the adverbial."""

    adverbial: Adverbial
    leaf: int = field(default_factory=_new_leaf)


@dataclass(slots=True, eq=False)
class Predicate:
    """An adjective after ``be``: (very) old; older than X; as old as X.

    Leaves: 0 degree or first ``as``, 1 adjective, 2 ``than`` or second ``as``.
    """

    adjective: Adjective
    degree: tuple[str, str] | None = None
    compared: Nominal | None = None
    equal: bool = False
    leaf: int = field(default_factory=_new_leaf)


@dataclass(frozen=True, slots=True)
class Modal:
    """A modal verb: English and German finite forms (first, third person, plural), and whether ``to`` follows."""

    english: tuple[str, str, str]
    german: tuple[str, str, str]
    takes_to: bool = False


@dataclass(slots=True, eq=False)
class Clause:
    """A verb with its subject, objects and adverbs. ``verb`` is None for ``be``, ``subject`` is None for an infinitive.

    Leaves: 0 finite auxiliary, 1 verb, 2 particle, 3 not, 4 to, 5 comma before ``after``, 6 comma after ``front``.
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
    leaf: int = field(default_factory=_new_leaf)

    @property
    def contains_no(self) -> bool:
        """Whether the subject or an object has the determiner "no"."""
        phrases = (self.subject, self.accusative, self.dative)
        return any(isinstance(phrase, NounPhrase) and phrase.determiner == "no" for phrase in phrases)

    @property
    def ends_in_relative_clause(self) -> bool:
        """Whether it ends in a restrictive relative clause: an adverb after that would belong to the wrong clause."""
        last = self.oblique.nominal if self.oblique else self.accusative or self.dative
        if self.dative_with_to:
            last = self.dative
        return isinstance(last, NounPhrase) and last.relative is not None and last.relative.restrictive


@dataclass(slots=True, eq=False)
class Subordinate:
    """A conjunction and a verb-final clause. Leaf: 0 the conjunction (all its words)."""

    english: str
    german: str
    clause: Clause
    leaf: int = field(default_factory=_new_leaf)


@dataclass(slots=True, eq=False)
class Relative:
    """A clause about a noun. ``role`` of the noun in it: subject, accusative, dative or oblique (with ``preposition``).

    Leaves: 0 pronoun, 1 opening comma, 2 closing comma, 3 preposition.
    """

    clause: Clause
    role: str
    restrictive: bool = True
    preposition: Preposition | None = None
    leaf: int = field(default_factory=_new_leaf)


@dataclass(slots=True, eq=False)
class Sentence:
    """One clause, or two joined by a conjunction.

    ``asked`` is None for a statement, a pair of empty strings for a yes/no question, else the interrogative.


    Leaves: 0 final mark, 1 conjunction, 2 its comma, 3 interrogative.
    """

    clause: Clause
    asked: tuple[str, str] | None = None
    conjunction: tuple[str, str] | None = None
    second: Clause | None = None
    mark: str = "."
    leaf: int = field(default_factory=_new_leaf)


CAN = Modal(("can", "can", "can"), ("kann", "kann", "können"))
COULD = Modal(("could", "could", "could"), ("konnte", "konnte", "konnten"))
MUST = Modal(("must", "must", "must"), ("muss", "muss", "müssen"))
SHOULD = Modal(("should", "should", "should"), ("sollte", "sollte", "sollten"))
MAY = Modal(("may", "may", "may"), ("darf", "darf", "dürfen"))
WANT = Modal(("want", "wants", "want"), ("will", "will", "wollen"), takes_to=True)
WANTED = Modal(("wanted", "wanted", "wanted"), ("wollte", "wollte", "wollten"), takes_to=True)
