"""Language-neutral sentences: what is meant, not how it is said. Both realisers walk the same tree.

Every node owns sixteen indices from ``at`` on, one for each leaf in it (determiner, noun, finite verb, …). A word is
its text and the indices of the leaves that it expresses; words that share an index are linked.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TypeAlias

from nmt.tasks.grammar.lexicon import (
    PLURAL,
    SINGULAR_THIRD,
    Adjective,
    Adverbial,
    Noun,
    Person,
    Preposition,
    Verb,
)

Word: TypeAlias = tuple[str, tuple[int, ...]]
_indices = itertools.count(step=16)


def _at() -> int:
    return next(_indices)


@dataclass(slots=True, eq=False)
class NounPhrase:
    """Leaves: 0 determiner, 1 numeral, 2 and 3 adjectives, 4 noun, 5 preposition of the genitive."""

    noun: Noun
    determiner: str = "the"
    plural: bool = False
    numeral: tuple[str, str] | None = None
    adjectives: tuple[Adjective, ...] = ()
    owner: NounPhrase | None = None
    modifier: PrepositionalPhrase | None = None
    relative: Relative | None = None
    at: int = field(default_factory=_at)

    @property
    def number(self) -> int:
        return PLURAL if self.plural else SINGULAR_THIRD

    @property
    def indefinite(self) -> bool:
        return self.determiner in {"a", ""} and self.numeral is None


@dataclass(slots=True, eq=False)
class Pronoun:
    """Leaf: 0."""

    person: Person
    at: int = field(default_factory=_at)

    @property
    def number(self) -> int:
        return self.person.number


@dataclass(slots=True, eq=False)
class Name:
    """Leaf: 0. A person or a city."""

    english: str
    german: str
    at: int = field(default_factory=_at)
    number: int = SINGULAR_THIRD


@dataclass(slots=True, eq=False)
class Both:
    """Two nominals joined by ``and``. Leaf: 0 the conjunction."""

    left: NounPhrase | Name
    right: NounPhrase | Name
    at: int = field(default_factory=_at)
    number: int = PLURAL


@dataclass(slots=True, eq=False)
class Gap:
    """The place in a relative clause that its pronoun has left: it agrees, and is silent."""

    number: int


Nominal: TypeAlias = NounPhrase | Pronoun | Name | Both | Gap


@dataclass(slots=True, eq=False)
class PrepositionalPhrase:
    """Leaf: 0 the preposition."""

    preposition: Preposition
    nominal: Nominal
    at: int = field(default_factory=_at)


@dataclass(slots=True, eq=False)
class Phrase:
    """An adverb or fixed phrase. Leaves: one for each link of the adverbial."""

    adverbial: Adverbial
    at: int = field(default_factory=_at)


@dataclass(slots=True, eq=False)
class Predicate:
    """After ``be``: (very) old; older than X; as old as X. Leaves: 0 degree or ``as``, 1 adjective, 2 ``than``."""

    adjective: Adjective
    degree: tuple[str, str] | None = None
    compared: Nominal | None = None
    equal: bool = False
    at: int = field(default_factory=_at)


@dataclass(frozen=True, slots=True)
class Modal:
    """English finite forms by person, and whether ``to`` follows; German finite forms by person."""

    english: tuple[str, str, str]
    german: tuple[str, str, str]
    takes_to: bool = False


@dataclass(slots=True, eq=False)
class Clause:
    """One verb and what belongs to it; ``verb`` is None for ``be``, ``subject`` is None for an infinitive.

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
    at: int = field(default_factory=_at)


@dataclass(slots=True, eq=False)
class Subordinate:
    """A conjunction and a verb-final clause. Leaf: 0 the conjunction (all its words)."""

    english: str
    german: str
    clause: Clause
    at: int = field(default_factory=_at)


@dataclass(slots=True, eq=False)
class Relative:
    """A clause about a noun. ``role``: subject, accusative, dative or oblique (then with the preposition).

    Leaves: 0 pronoun, 1 opening comma, 2 closing comma, 3 preposition.
    """

    clause: Clause
    role: str
    restrictive: bool = True
    preposition: Preposition | None = None
    at: int = field(default_factory=_at)


@dataclass(slots=True, eq=False)
class Sentence:
    """A clause, or two joined by a conjunction. ``asked``: "" yes/no, an interrogative, or None for a statement.

    Leaves: 0 final mark, 1 conjunction, 2 its comma, 3 interrogative.
    """

    clause: Clause
    asked: tuple[str, str] | None = None
    conjunction: tuple[str, str] | None = None
    second: Clause | None = None
    mark: str = "."
    at: int = field(default_factory=_at)


CAN = Modal(("can", "can", "can"), ("kann", "kann", "können"))
COULD = Modal(("could", "could", "could"), ("konnte", "konnte", "konnten"))
MUST = Modal(("must", "must", "must"), ("muss", "muss", "müssen"))
SHOULD = Modal(("should", "should", "should"), ("sollte", "sollte", "sollten"))
MAY = Modal(("may", "may", "may"), ("darf", "darf", "dürfen"))
WANT = Modal(("want", "wants", "want"), ("will", "will", "wollen"), takes_to=True)
WANTED = Modal(("wanted", "wanted", "wanted"), ("wollte", "wollte", "wollten"), takes_to=True)
