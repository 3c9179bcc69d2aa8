"""The lexicon as records: nouns, adjectives, verbs with their frames, adverbials; read once from the tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache

from nmt.tasks.grammar import adjectives, adverbials, nouns, verbs

NOMINATIVE, ACCUSATIVE, DATIVE, GENITIVE = range(4)
SINGULAR_FIRST, SINGULAR_THIRD, PLURAL = range(3)


@dataclass(frozen=True, slots=True)
class Noun:
    """``forms`` are the German singular in four cases, then the plural in four; no English plural: a mass."""

    singular: str
    plural: str | None
    kind: str
    gender: str
    forms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Adjective:
    """``stem`` takes the German endings (teur-), ``german`` stands alone (teuer)."""

    english: str
    german: str
    stem: str
    english_comparative: str | None
    german_comparative: str | None
    kinds: frozenset[str]


@dataclass(frozen=True, slots=True)
class Verb:
    """English base, -s, past, participle and particle; German finite forms by person (ich, er, wir) and the rest."""

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
    """A preposition and the case that it governs in German."""

    english: str
    german: str
    case: int


@dataclass(frozen=True, slots=True)
class Frame:
    """What a verb takes: ``shape`` names it, ``dative`` and ``object`` are kinds of nouns."""

    shape: str
    dative: tuple[str, ...] = ()
    object: tuple[str, ...] = ()
    preposition: Preposition | None = None


@dataclass(frozen=True, slots=True)
class Adverbial:
    """Fixed words of both languages and the links among them."""

    english: tuple[str, ...]
    german: tuple[str, ...]
    links: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Person:
    """A pronoun: English subject, object and possessive; German in three cases, and its possessive's stem."""

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
FROM, WITH, WITHOUT = (
    Preposition("from", "aus", DATIVE),
    Preposition("with", "mit", DATIVE),
    Preposition("without", "ohne", ACCUSATIVE),
)
NEAR = (
    Preposition("behind", "hinter", DATIVE),
    Preposition("next to", "neben", DATIVE),
    Preposition("in front of", "vor", DATIVE),
)
WHERE = {"inside": IN, "beside": AT, "upon": ON}
PLACES = tuple(WHERE)


def _rows(table: str) -> list[list[str]]:
    return [[cell.strip() for cell in row.split("|")] for row in table.strip().splitlines()]


def _noun(kind: str, english: str, german: str) -> Noun:
    singular, plural = english.replace("_", " ").split(" ") if "_" not in english else english.split()
    gender, *forms = german.split()
    one, genitive, many = (forms[0], forms[0], forms[1]) if gender == "f" else forms
    weak = gender == "m" and genitive.endswith("n")
    oblique = genitive if weak else one
    dative_plural = many if many.endswith(("n", "s")) else many + "n"
    return Noun(
        singular.replace("_", " "),
        None if plural == "-" else plural.replace("_", " "),
        kind,
        gender,
        (one, oblique, oblique, genitive, many, many, dative_plural, many),
    )


@cache
def all_nouns() -> tuple[Noun, ...]:
    return tuple(_noun(kind, *row) for kind, table in nouns.NOUNS.items() for row in _rows(table))


@cache
def all_adjectives() -> tuple[Adjective, ...]:
    found = []
    for english, german, kinds in _rows(adjectives.ADJECTIVES):
        positive, compared = english.split()
        form, german_compared = german.split()
        bare, _, stem = form.partition("/")
        more = {"-": None, "more": f"more {positive}"}.get(compared, compared)
        german_more = None if more is None else german_compared
        found.append(Adjective(positive, bare, stem or bare, more, german_more, frozenset(kinds.split())))
    return tuple(found)


def _third(base: str) -> str:
    if base in {"go"} or base.endswith(("s", "sh", "ch", "x", "z")):
        return base + "es"
    return base[:-1] + "ies" if base.endswith("y") and base[-2] not in "aeiou" else base + "s"


def _past(base: str) -> str:
    if base.endswith("e"):
        return base + "d"
    return base[:-1] + "ied" if base.endswith("y") and base[-2] not in "aeiou" else base + "ed"


def _first_person(infinitive: str, third: str) -> str:
    if third == "weiß":
        return third
    if infinitive.endswith("eln"):
        return infinitive[:-3] + "le"
    return infinitive[:-1] if infinitive.endswith("en") else infinitive[:-1] + "e"


def _frame(text: str) -> Frame:
    shape, *kinds = text.split()
    lists = [tuple(kind.split(",")) for kind in kinds]
    if shape in {"both", "to"}:
        return Frame(shape, dative=lists[0], object=lists[1])
    if shape == "dat":
        return Frame(shape, dative=tuple(kinds))
    if "/" in shape:
        english, german, case = shape.split("/")
        preposition = Preposition(english, german, ACCUSATIVE if case == "acc" else DATIVE)
        return Frame("preposition", object=tuple(kinds), preposition=preposition)
    return Frame({"-": "alone"}.get(shape, shape), object=tuple(kinds))


def _verb(english: str, german: str, kinds: str, frames: str) -> Verb:
    forms = english.split()
    mark = "+" if "+" in forms[0] else "_"
    base, _, particle = forms[0].partition(mark)
    past = forms[1] if len(forms) > 1 else _past(base)
    participle = forms[2] if len(forms) > 2 else past
    infinitive, present, preterite, german_participle, *sein = german.split()
    prefix, _, stem = infinitive.rpartition("+")
    plural = preterite + ("n" if preterite.endswith("e") else "en")
    return Verb(
        base,
        _third(base),
        past,
        participle,
        particle,
        mark == "+",
        stem,
        (_first_person(stem, present), present, stem),
        (preterite, preterite, plural),
        prefix + german_participle,
        prefix,
        bool(sein),
        tuple(kinds.split()),
        tuple(_frame(frame.strip()) for frame in frames.split(";")),
    )


@cache
def all_verbs() -> tuple[Verb, ...]:
    return tuple(_verb(*row) for row in _rows(verbs.VERBS))


@cache
def verb(english: str, german: str | None = None) -> Verb:
    """The verb by its English words, ``get up``; where one serves two German verbs (know), also by the German one."""
    for one in all_verbs():
        if f"{one.base} {one.particle}".strip() == english and german in {None, one.prefix + one.german}:
            return one
    raise KeyError(english)


@cache
def noun(english: str) -> Noun:
    return next(one for one in all_nouns() if one.singular == english)


@cache
def adjective(english: str) -> Adjective:
    return next(one for one in all_adjectives() if one.english == english)


def _adverbial(row: list[str]) -> Adverbial:
    english, german = tuple(row[0].split()), tuple(row[1].split())
    if len(row) > 2:
        links = tuple((int(i), int(j)) for i, j in (link.split("-") for link in row[2].split()))
    else:
        links = tuple(zip(range(len(english)), range(len(german)), strict=True))
    return Adverbial(english, german, links)


def fixed(table: str) -> tuple[Adverbial, ...]:
    """The adverbials of a table; NUMBER stands for each number in turn."""
    found = []
    for row in _rows(table):
        if "NUMBER" in row[0]:
            for english, german in _rows(adverbials.NUMBERS):
                words = [row[0].replace("NUMBER", english), row[1].replace("NUMBER", german), *row[2:]]
                found.append(_adverbial(words))
        else:
            found.append(_adverbial(row))
    return tuple(found)


def pairs(table: str) -> tuple[tuple[str, str], ...]:
    return tuple((english, german) for english, german in _rows(table))
