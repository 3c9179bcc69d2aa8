"""Records of the lexicon: what is known of a noun, an adjective, a verb; pronouns and prepositions."""

from __future__ import annotations

from dataclasses import dataclass, field

NOMINATIVE, ACCUSATIVE, DATIVE, GENITIVE = range(4)
SINGULAR_FIRST, SINGULAR_THIRD, PLURAL = range(3)


@dataclass(frozen=True, slots=True)
class Noun:
    """A noun. ``forms``: German singular in four cases, then plural in four. ``plural`` is None for a mass noun."""

    singular: str
    plural: str | None
    kind: str
    gender: str
    forms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Adjective:
    """An adjective. ``german`` is the form without an ending (teuer), ``stem`` the form before endings (teur-)."""

    english: str
    german: str
    stem: str
    english_comparative: str | None
    german_comparative: str | None
    kinds: frozenset[str]


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb: English base, third person, past, participle, particle; German forms, finite ones for ich, er, wir."""

    base: str
    third: str
    past: str
    participle: str
    particle: str
    movable: bool
    german: str
    present_forms: tuple[str, str, str]
    past_forms: tuple[str, str, str]
    german_participle: str
    prefix: str
    with_sein: bool
    kinds: tuple[str, ...]
    frames: tuple[Frame, ...] = field(compare=False)


@dataclass(frozen=True, slots=True)
class Preposition:
    """A preposition and the German case that it governs."""

    english: str
    german: str
    case: int


@dataclass(frozen=True, slots=True)
class Frame:
    """The complements of a verb: the name of the pattern (``shape``) and the noun kinds of its objects."""

    shape: str
    dative: tuple[str, ...] = ()
    object: tuple[str, ...] = ()
    preposition: Preposition | None = None


@dataclass(frozen=True, slots=True)
class Adverbial:
    """Fixed words of both languages and their links."""

    english: tuple[str, ...]
    german: tuple[str, ...]
    links: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Person:
    """A pronoun: English subject and object form, German nominative, accusative and dative, and the possessives."""

    english: tuple[str, str]
    german: tuple[str, str, str]
    number: int
    possessive: tuple[str, str] | None = None


I = Person(("I", "me"), ("ich", "mich", "mir"), SINGULAR_FIRST, ("my", "mein"))  # noqa: E741
HE = Person(("he", "him"), ("er", "ihn", "ihm"), SINGULAR_THIRD, ("his", "sein"))
SHE = Person(("she", "her"), ("sie", "sie", "ihr"), SINGULAR_THIRD, ("her", "ihr"))
WE = Person(("we", "us"), ("wir", "uns", "uns"), PLURAL, ("our", "unser"))
THEY = Person(("they", "them"), ("sie", "sie", "ihnen"), PLURAL, ("their", "ihr"))
IT = Person(("it", "it"), ("es", "es", "ihm"), SINGULAR_THIRD)
WHO = Person(("who", "whom"), ("wer", "wen", "wem"), SINGULAR_THIRD)
PERSONS = (I, HE, SHE, WE, THEY)

IN, INTO = Preposition("in", "in", DATIVE), Preposition("into", "in", ACCUSATIVE)
AT, ON = Preposition("at", "an", DATIVE), Preposition("on", "auf", DATIVE)
TO, TO_CITY = Preposition("to", "zu", DATIVE), Preposition("to", "nach", DATIVE)
FROM, WITH = Preposition("from", "aus", DATIVE), Preposition("with", "mit", DATIVE)
WITHOUT = Preposition("without", "ohne", ACCUSATIVE)
BEHIND, NEXT_TO = Preposition("behind", "hinter", DATIVE), Preposition("next to", "neben", DATIVE)
NEAR = (BEHIND, NEXT_TO, Preposition("in front of", "vor", DATIVE))
PLACE_PREPOSITIONS = {"inside": IN, "beside": AT, "upon": ON}
PLACES = tuple(PLACE_PREPOSITIONS)  # kinds of nouns that can be a place
