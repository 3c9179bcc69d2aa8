"""The lexicon: nouns, adjectives, verbs and adverbials, read once from the tables."""

from __future__ import annotations

from functools import cache

from nmt.grammar import adjectives, adverbials, nouns, verbs
from nmt.grammar.records import ACCUSATIVE, DATIVE, Adjective, Adverbial, Frame, Noun, Preposition, Verb


def _rows(table: str) -> list[list[str]]:
    return [[cell.strip() for cell in row.split("|")] for row in table.strip().splitlines()]


def _noun(kind: str, english: str, german: str) -> Noun:
    singular, plural = english.replace("_", " ").split(" ") if "_" not in english else english.split()
    gender, *forms = german.split()
    nominative, genitive, german_plural = (forms[0], forms[0], forms[1]) if gender == "f" else forms
    weak = gender == "m" and genitive.endswith("n")
    oblique = genitive if weak else nominative
    dative_plural = german_plural if german_plural.endswith(("n", "s")) else german_plural + "n"
    return Noun(
        singular.replace("_", " "),
        None if plural == "-" else plural.replace("_", " "),
        kind,
        gender,
        (nominative, oblique, oblique, genitive, german_plural, german_plural, dative_plural, german_plural),
    )


@cache
def all_nouns() -> tuple[Noun, ...]:
    """Return all nouns in the order of the table."""
    return tuple(_noun(kind, *row) for kind, table in nouns.NOUNS.items() for row in _rows(table))


@cache
def all_adjectives() -> tuple[Adjective, ...]:
    """Return all adjectives in the order of the table."""
    return tuple(_adjective(*row) for row in _rows(adjectives.ADJECTIVES))


def _adjective(english: str, german: str, kinds: str) -> Adjective:
    positive, form = english.split()
    german_form, german_comparative = german.split()
    german_positive, _, stem = german_form.partition("/")
    comparative = {"-": None, "more": f"more {positive}"}.get(form, form)
    return Adjective(
        positive,
        german_positive,
        stem or german_positive,
        comparative,
        None if comparative is None else german_comparative,
        frozenset(kinds.split()),
    )


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
    """Return all verbs in the order of the table."""
    return tuple(_verb(*row) for row in _rows(verbs.VERBS))


@cache
def verb(english: str, german: str | None = None) -> Verb:
    """Return the verb with these English words (``get up``); ``german`` decides between homonyms (know)."""
    for record in all_verbs():
        if f"{record.base} {record.particle}".strip() == english and german in {None, record.prefix + record.german}:
            return record
    raise KeyError(english)


@cache
def noun(english: str) -> Noun:
    """Return the noun with this English singular."""
    return next(record for record in all_nouns() if record.singular == english)


@cache
def adjective(english: str) -> Adjective:
    """Return the adjective with this English positive."""
    return next(record for record in all_adjectives() if record.english == english)


def _adverbial(row: list[str]) -> Adverbial:
    english, german = tuple(row[0].split()), tuple(row[1].split())
    if len(row) > 2:
        links = tuple((int(i), int(j)) for i, j in (link.split("-") for link in row[2].split()))
    else:
        links = tuple(zip(range(len(english)), range(len(german)), strict=True))
    return Adverbial(english, german, links)


def read_adverbials(table: str) -> tuple[Adverbial, ...]:
    """Return the adverbials of a table; a row with NUMBER gives one for each number."""
    records = []
    for row in _rows(table):
        if "NUMBER" in row[0]:
            for english, german in _rows(adverbials.NUMBERS):
                words = [row[0].replace("NUMBER", english), row[1].replace("NUMBER", german), *row[2:]]
                records.append(_adverbial(words))
        else:
            records.append(_adverbial(row))
    return tuple(records)


def read_translations(table: str) -> tuple[tuple[str, str], ...]:
    """Return the (English, German) rows of a table."""
    return tuple((english, german) for english, german in _rows(table))
