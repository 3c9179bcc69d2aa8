"""The lexicon: records of words, the tables that are read into them, and the part of them that a corpus uses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple, TypeVar

from scripts.grammar import tables

T = TypeVar("T")
# Only the first of two adjectives comes from this set, so that nothing is both old and new.
OUTWARD = {"old", "young", "new", "big", "small", "long", "short"}
WEATHER = ("weather",)  # the kind of subject of "rain"
OBJECT_ROLES = {"acc": "accusative", "both": "accusative", "dat": "dative", "preposition": "oblique"}
NOMINATIVE, ACCUSATIVE, DATIVE, GENITIVE = range(4)
SINGULAR_FIRST, SINGULAR_THIRD, PLURAL = range(3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Noun:
    """A noun. ``forms``: German singular in four cases, then plural in four. ``plural`` is None for a mass noun."""

    singular: str
    plural: str | None
    kind: str
    gender: str
    forms: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Adjective:
    """An adjective. ``german`` is the form without an ending (teuer), ``stem`` the form before endings (teur-)."""

    english: str
    german: str
    stem: str
    english_comparative: str | None
    german_comparative: str | None
    kinds: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
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

IN = Preposition("in", "in", DATIVE)
INTO = Preposition("into", "in", ACCUSATIVE)
AT = Preposition("at", "an", DATIVE)
ON = Preposition("on", "auf", DATIVE)
TO = Preposition("to", "zu", DATIVE)
TO_CITY = Preposition("to", "nach", DATIVE)
FROM = Preposition("from", "aus", DATIVE)
WITH = Preposition("with", "mit", DATIVE)
WITHOUT = Preposition("without", "ohne", ACCUSATIVE)
BEHIND = Preposition("behind", "hinter", DATIVE)
NEXT_TO = Preposition("next to", "neben", DATIVE)
NEAR = (BEHIND, NEXT_TO, Preposition("in front of", "vor", DATIVE))
PLACE_PREPOSITIONS = {"inside": IN, "beside": AT, "upon": ON}
PLACES = tuple(PLACE_PREPOSITIONS)  # kinds of nouns that can be a place


def _rows(table: str) -> list[list[str]]:
    return [[cell.strip() for cell in row.split("|")] for row in table.strip().splitlines()]


def _noun(kind: str, english: str, german: str) -> Noun:
    singular, plural = english.split()
    gender, *forms = german.split()
    nominative, genitive, german_plural = (forms[0], forms[0], forms[1]) if gender == "f" else forms
    weak = gender == "m" and genitive.endswith("n")
    oblique = genitive if weak else nominative
    dative_plural = german_plural if german_plural.endswith(("n", "s")) else german_plural + "n"
    return Noun(
        singular=singular.replace("_", " "),
        plural=None if plural == "-" else plural.replace("_", " "),
        kind=kind,
        gender=gender,
        forms=(nominative, oblique, oblique, genitive, german_plural, german_plural, dative_plural, german_plural),
    )


@cache
def all_nouns() -> tuple[Noun, ...]:
    """Return all nouns in the order of the table."""
    return tuple(_noun(kind, *row) for kind, table in tables.NOUNS.items() for row in _rows(table))


@cache
def all_adjectives() -> tuple[Adjective, ...]:
    """Return all adjectives in the order of the table."""
    return tuple(_adjective(*row) for row in _rows(tables.ADJECTIVES))


def _adjective(english: str, german: str, kinds: str) -> Adjective:
    positive, form = english.split()
    german_form, german_comparative = german.split()
    german_positive, _, stem = german_form.partition("/")
    comparative = {"-": None, "more": f"more {positive}"}.get(form, form)
    return Adjective(
        english=positive,
        german=german_positive,
        stem=stem or german_positive,
        english_comparative=comparative,
        german_comparative=None if comparative is None else german_comparative,
        kinds=frozenset(kinds.split()),
    )


def _ends_in_consonant_y(base: str) -> bool:
    return base.endswith("y") and base[-2] not in "aeiou"


def _third(base: str) -> str:
    if _ends_in_consonant_y(base):
        return base[:-1] + "ies"
    return base + ("es" if base == "go" or base.endswith(("s", "sh", "ch", "x", "z")) else "s")


def _past(base: str) -> str:
    if _ends_in_consonant_y(base):
        return base[:-1] + "ied"
    return base + ("d" if base.endswith("e") else "ed")


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
    first, *others = english.split()
    base, mark, particle = first.partition("+" if "+" in first else "_")
    past, participle = (*others, *others[-1:], *[_past(base)] * 2)[:2]
    infinitive, present, preterite, german_participle, *sein = german.split()
    prefix, _, stem = infinitive.rpartition("+")
    return Verb(
        base=base,
        third=_third(base),
        past=past,
        participle=participle,
        particle=particle,
        movable=mark == "+",
        german=stem,
        present_forms=(_first_person(stem, present), present, stem),
        past_forms=(preterite, preterite, preterite + ("n" if preterite.endswith("e") else "en")),
        german_participle=prefix + german_participle,
        prefix=prefix,
        with_sein=bool(sein),
        kinds=tuple(kinds.split()),
        frames=tuple(_frame(frame.strip()) for frame in frames.split(";")),
    )


@cache
def all_verbs() -> tuple[Verb, ...]:
    """Return all verbs in the order of the table."""
    return tuple(_verb(*row) for row in _rows(tables.VERBS))


def read_adverbials(table: str) -> tuple[Adverbial, ...]:
    """Return the adverbials of a table; a row with NUMBER gives one for each number."""
    return tuple(
        _adverbial(*(cell.replace("NUMBER", number) for cell, number in zip(row, (*numbers, ""), strict=False)))
        for row in _rows(table)
        for numbers in (_rows(tables.NUMBERS) if "NUMBER" in row[0] else [["", ""]])
    )


def _adverbial(english: str, german: str, links: str = "") -> Adverbial:
    source = tuple(english.split())
    target = tuple(german.split())
    pairs = [link.split("-") for link in links.split()] or zip(range(len(source)), range(len(target)), strict=True)
    return Adverbial(source, target, tuple((int(i), int(j)) for i, j in pairs))


def read_translations(table: str) -> tuple[tuple[str, str], ...]:
    """Return the (English, German) rows of a table."""
    return tuple((english, german) for english, german in _rows(table))


class Use(NamedTuple):
    """A verb with one of its frames."""

    verb: Verb
    frame: Frame


class Vocabulary:
    """The first ``share`` of each list, at least two entries, so that a small corpus still shows each word often."""

    def __init__(self, share: float) -> None:
        self.share = share
        kinds = dict.fromkeys(noun.kind for noun in all_nouns())
        self.nouns = {kind: self._cut([noun for noun in all_nouns() if noun.kind == kind]) for kind in kinds}
        self.adjectives = {
            kind: self._cut([adjective for adjective in all_adjectives() if kind in adjective.kinds]) for kind in kinds
        }
        self.outward = self._adjectives_if(lambda adjective: adjective.english in OUTWARD)
        self.inward = self._adjectives_if(lambda adjective: adjective.english not in OUTWARD)
        self.compared = self._adjectives_if(lambda adjective: adjective.english_comparative is not None)
        self.uses = self._uses()
        self.about = {kind: self._about(kind) for kind in kinds}
        self.weather = [verb for verb in all_verbs() if verb.kinds == WEATHER]
        self.numerals, self.degrees, self.cities = (
            self._cut(read_translations(table)) for table in (tables.NUMBERS, tables.DEGREES, tables.CITIES)
        )
        men, women = map(str.split, tables.NAMES.values())
        self.names = self._cut([name for names in zip(men, women, strict=True) for name in names])
        self.manner, self.frequency, self.opening, self.hours = (
            self._cut(read_adverbials(table))
            for table in (tables.MANNER, tables.FREQUENCY, tables.OPENING, tables.HOURS)
        )
        self.times = {tense: self._rows(table) for tense, table in tables.TIME.items()}

    def _cut(self, entries: Sequence[T]) -> tuple[T, ...]:
        return tuple(entries[: max(2, round(len(entries) * self.share))])

    def _adjectives_if(self, condition: Callable[[Adjective], bool]) -> dict[str, tuple[Adjective, ...]]:
        return {kind: tuple(filter(condition, adjectives)) for kind, adjectives in self.adjectives.items()}

    def _rows(self, table: str) -> tuple[tuple[Adverbial, ...], ...]:
        """Return one group of adverbials per row, so that a row with NUMBER is as likely as any other."""
        return tuple(self._cut(read_adverbials(row)) for row in self._cut(table.strip().splitlines()))

    def _uses(self) -> dict[str, tuple[Use, ...]]:
        by_shape: dict[str, list[Use]] = {}
        for verb in all_verbs():
            for frame in verb.frames:
                if verb.kinds != WEATHER:
                    by_shape.setdefault(frame.shape, []).append(Use(verb, frame))
        return {shape: self._cut(uses) for shape, uses in by_shape.items()}

    def _about(self, kind: str) -> tuple[tuple[Use, str], ...]:
        """Return the verbs that a relative clause about this kind of noun can have, each with the noun's role."""
        pairs: list[tuple[Use, str]] = []
        for shape, uses in self.uses.items():
            for use in uses:
                if kind in use.verb.kinds and shape in {"alone", "acc", "dat", "both", "preposition", "place"}:
                    pairs.append((use, "subject"))
                if shape == "place" and kind in PLACES:
                    pairs.append((use, "place"))
                role = OBJECT_ROLES.get(shape)
                if role and kind in (use.frame.dative if shape == "dat" else use.frame.object):
                    pairs.append((use, role))
        return tuple(pairs)
