"""Endings of German determiners, adjectives and relative pronouns by gender (m, f, n, p: plural) and case."""

from __future__ import annotations

from functools import cache

from nmt.tasks.grammar.lexicon import PERSONS

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
# Only these two forms of ein have no ending; the adjective then shows gender itself: ein alter Hund.
BARE = {("m", 0), ("n", 0), ("n", 1)}


def _cell(table: tuple[str, ...], gender: str, case: int) -> str:
    return table[case].split()[GENDERS.index(gender)]


@cache
def determiner(english: str, gender: str, case: int) -> str:
    """The German determiner that an English one stands for."""
    if english == "the":
        return _cell(DEFINITE, gender, case)
    if english in LIKE_DIESER:
        return LIKE_DIESER[english] + _cell(STRONG, gender, case)
    return LIKE_EIN[english] + ("" if (gender, case) in BARE else _cell(STRONG, gender, case))


@cache
def adjective_ending(english: str, gender: str, case: int) -> str:
    """Weak after a determiner that shows gender and case, strong where none does."""
    alone = english in {"", "many"} or (english in LIKE_EIN and (gender, case) in BARE)
    if alone and not (case == 3 and gender in "mn"):
        return _cell(STRONG, gender, case)
    return _cell(WEAK, gender, case)


@cache
def relative_pronoun(gender: str, case: int) -> str:
    return _cell(RELATIVE, gender, case)
