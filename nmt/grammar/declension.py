"""Endings of German determiners, adjectives and relative pronouns by gender (m, f, n, p: plural) and case."""

from __future__ import annotations

from functools import cache

from nmt.grammar.records import PERSONS

GENDERS = "mfnp"
# Rows: nominative, accusative, dative, genitive. Columns: masculine, feminine, neuter, plural.
DEFINITE = ("der die das die", "den die das die", "dem der dem den", "des der des der")
STRONG = ("er e es e", "en e es e", "em er em en", "es er es er")
WEAK = ("e e e en", "en e e en", "en en en en", "en en en en")
RELATIVE = ("der die das die", "den die das die", "dem der dem denen")

LIKE_DIESER = {"this": "dies", "these": "dies", "every": "jed", "all": "all", "many": "viel"}
LIKE_EIN = {"a": "ein", "no": "kein"} | {
    person.possessive[0]: person.possessive[1] for person in PERSONS if person.possessive
}
# Forms of ein without an ending: masculine nominative, neuter nominative and accusative.
# The adjective then shows the gender: ein alter Hund.
NO_ENDING = {("m", 0), ("n", 0), ("n", 1)}


def _cell(table: tuple[str, ...], gender: str, case: int) -> str:
    return table[case].split()[GENDERS.index(gender)]


@cache
def determiner(english: str, gender: str, case: int) -> str:
    """Return the German form of an English determiner."""
    if english == "the":
        return _cell(DEFINITE, gender, case)
    if english in LIKE_DIESER:
        return LIKE_DIESER[english] + _cell(STRONG, gender, case)
    return LIKE_EIN[english] + ("" if (gender, case) in NO_ENDING else _cell(STRONG, gender, case))


@cache
def adjective_ending(english: str, gender: str, case: int) -> str:
    """Return the weak ending after a determiner that shows gender and case, otherwise the strong one."""
    unmarked = english in {"", "many"} or (english in LIKE_EIN and (gender, case) in NO_ENDING)
    if unmarked and not (case == 3 and gender in "mn"):
        return _cell(STRONG, gender, case)
    return _cell(WEAK, gender, case)


@cache
def relative_pronoun(gender: str, case: int) -> str:
    """Return the German relative pronoun."""
    return _cell(RELATIVE, gender, case)
