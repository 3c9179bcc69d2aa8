"""Realise a tree in German: finite verb second or last, four cases, agreement."""

from __future__ import annotations

from functools import cache

from scripts.grammar.lexicon import ACCUSATIVE, DATIVE, GENITIVE, NOMINATIVE, PERSONS
from scripts.grammar.tree import (
    Both,
    Clause,
    ClauseLeaf,
    Gap,
    Modal,
    Name,
    Nominal,
    NounLeaf,
    NounPhrase,
    Predicate,
    PredicateLeaf,
    PrepositionalPhrase,
    Pronoun,
    Relative,
    RelativeLeaf,
    Subordinate,
    Word,
)

COMMA = ","
CONTRACTIONS = {
    "in dem": "im", "in das": "ins", "an dem": "am", "zu dem": "zum", "zu der": "zur", "von dem": "vom",
}  # fmt: skip
BE = {"present": ("bin", "ist", "sind"), "past": ("war", "war", "waren")}
HAVE = ("habe", "hat", "haben")
WILL = ("werde", "wird", "werden")
# Endings by gender (m, f, n, p: plural) and case.
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


@cache
def form(table: tuple[str, ...], gender: str, case: int) -> str:
    """Return one cell of a table of endings or pronouns."""
    return table[case].split()[GENDERS.index(gender)]


def determiner(english: str, gender: str, case: int) -> str:
    """Return the German form of an English determiner."""
    if english == "the":
        return form(DEFINITE, gender, case)
    stem = LIKE_DIESER.get(english) or LIKE_EIN[english]
    return stem if english in LIKE_EIN and (gender, case) in NO_ENDING else stem + form(STRONG, gender, case)


def adjective_ending(english: str, gender: str, case: int) -> str:
    """Return the weak ending after a determiner that shows gender and case, otherwise the strong one."""
    unmarked = english in {"", "many"} or (english in LIKE_EIN and (gender, case) in NO_ENDING)
    strong = unmarked and not (case == GENITIVE and gender in "mn")
    return form(STRONG if strong else WEAK, gender, case)


def subordinate(node: Subordinate) -> list[Word]:
    words: list[Word] = [node.word(word) for word in node.german.split()]
    return words + verb_last(node.clause)


def nominal(node: Nominal, case: int, negation: int | None = None) -> list[Word]:
    match node:
        case NounPhrase():
            return noun_phrase(node, case, negation)
        case Pronoun():
            return [node.word(node.person.german[case])]
        case Name():
            return [node.word(node.german)]
        case Both():
            return [*nominal(node.left, case), node.word("und"), *nominal(node.right, case)]
        case Gap():
            return []


def noun_phrase(node: NounPhrase, case: int, negation: int | None = None) -> list[Word]:
    """Return determiner, numeral, adjectives, noun and modifiers; leaf ``negation`` ("not") turns ein into kein."""
    gender = "p" if node.plural else node.noun.gender
    english = node.determiner if negation is None else "no"
    own = (node.leaf + NounLeaf.DETERMINER,)
    leaves = own if negation is None else (*own, negation) if node.determiner else (negation,)
    words: list[Word] = [(determiner(english, gender, case), leaves)] if english else []
    if node.numeral:
        words.append(node.word(node.numeral[1], NounLeaf.NUMERAL))
    ending = adjective_ending(english, gender, case)
    words += [node.word(adjective.stem + ending, NounLeaf.ADJECTIVE + i) for i, adjective in enumerate(node.adjectives)]
    words.append(node.word(node.noun.forms[case + 4 * node.plural], NounLeaf.NOUN))
    if node.owner:
        words += noun_phrase(node.owner, GENITIVE)
    if node.modifier:
        words += prepositional(node.modifier)
    if node.relative:
        words += relative(node.relative, gender)
    return words


def prepositional(node: PrepositionalPhrase) -> list[Word]:
    """Contract preposition and article (im, zum, …), except before a restrictive relative clause: in dem Haus, das …"""
    words = nominal(node.nominal, node.preposition.case)
    german = node.preposition.german
    inner = node.nominal
    if isinstance(inner, NounPhrase) and inner.determiner == "the":
        restricted = inner.relative is not None and inner.relative.restrictive
        contracted = CONTRACTIONS.get(f"{german} {words[0][0]}")
        if contracted and not restricted:
            return [(contracted, (node.leaf, *words[0][1])), *words[1:]]
    return [node.word(german), *words]


def relative(node: Relative, gender: str) -> list[Word]:
    case = {"subject": NOMINATIVE, "accusative": ACCUSATIVE, "dative": DATIVE}.get(node.role)
    before: list[Word] = []
    if node.preposition:
        case = node.preposition.case
        before = [node.word(node.preposition.german, RelativeLeaf.PREPOSITION)]
    assert case is not None
    # English has no commas around a restrictive clause, so the German commas stay unlinked.
    opening, closing = (
        () if node.restrictive else (node.leaf + comma,)
        for comma in (RelativeLeaf.OPENING_COMMA, RelativeLeaf.CLOSING_COMMA)
    )
    pronoun = node.word(form(RELATIVE, gender, case))
    return [(COMMA, opening), *before, pronoun, *verb_last(node.clause), (COMMA, closing)]


def predicate(node: Predicate) -> list[Word]:
    adjective = node.word(node.adjective.german, PredicateLeaf.ADJECTIVE)
    if node.compared is None:
        return [*([node.word(node.degree[1])] if node.degree else []), adjective]
    compared = nominal(node.compared, NOMINATIVE)
    if node.equal:
        return [node.word("so"), adjective, node.word("wie", PredicateLeaf.THAN), *compared]
    comparative = node.word(node.adjective.german_comparative or "", PredicateLeaf.ADJECTIVE)
    return [comparative, node.word("als", PredicateLeaf.THAN), *compared]


def verb_group(node: Clause, number: int) -> tuple[Word, list[Word], list[Word]]:
    """Return the finite verb, its detached prefix, and the non-finite forms at the end of the clause."""
    verb, tense, leaves = node.verb, node.tense, node.verb_leaves
    if tense == "present" or tense == "past":
        if verb is None:
            return (BE[tense][number], leaves), [], []
        form = (verb.present_forms if tense == "present" else verb.past_forms)[number]
        if verb.prefix:
            return (form, leaves[:1]), [(verb.prefix, leaves[1:])], []
        return (form, leaves), [], []
    if tense == "perfect":
        participle = "gewesen" if verb is None else verb.german_participle
        forms = BE["present"] if verb is None or verb.with_sein else HAVE
        return node.word(forms[number]), [], [(participle, leaves)]
    infinitive = "sein" if verb is None else verb.prefix + verb.german
    forms = tense.german if isinstance(tense, Modal) else WILL
    return node.word(forms[number]), [], [(infinitive, leaves)]


def middle(node: Clause) -> list[Word]:
    """Return the middle field: pronouns, time, other objects (dative first), nicht, manner, predicate, place."""
    objects = [(node.accusative, ACCUSATIVE), (node.dative, DATIVE)]
    indefinite = [phrase for phrase, _ in objects if isinstance(phrase, NounPhrase) and phrase.indefinite]
    kein = indefinite[0] if node.negated and indefinite else None  # the object whose ein becomes kein
    negation = node.leaf + ClauseLeaf.NOT
    words: list[Word] = []
    for nominal_node, case in objects:
        if isinstance(nominal_node, Pronoun):
            words += nominal(nominal_node, case)
    for adverb in (node.time, node.frequency):
        if adverb:
            words += adverb.words(1)
    for nominal_node, case in reversed(objects):
        if nominal_node and not isinstance(nominal_node, Pronoun):
            words += nominal(nominal_node, case, negation if nominal_node is kein else None)
    if node.negated and not kein:
        words.append(("nicht", (negation,)))
    if node.manner:
        words += node.manner.words(1)
    if node.predicate:
        words += predicate(node.predicate)
    if node.oblique:
        words += prepositional(node.oblique)
    return words


def after(node: Clause) -> list[Word]:
    """Return the comma and clause after the final verb: one with a conjunction, or an infinitive with zu."""
    if node.after is None:
        return []
    dependent = subordinate(node.after) if isinstance(node.after, Subordinate) else infinitive(node.after)
    return [(COMMA, ()), *dependent]


def infinitive(node: Clause) -> list[Word]:
    verb = node.verb
    assert verb is not None
    to = (node.leaf + ClauseLeaf.TO,)
    closing: list[Word] = [("zu", to), (verb.german, node.verb_leaves)]
    if verb.prefix:
        closing = [(f"{verb.prefix}zu{verb.german}", (*to, *node.verb_leaves))]
    return [*middle(node), *closing, *after(node)]


def verb_second(node: Clause, *, asked: bool = False) -> list[Word]:
    assert node.subject is not None
    finite, prefix, closing = verb_group(node, node.subject.number)
    subject = nominal(node.subject, NOMINATIVE)
    front: list[Word] = []
    if isinstance(node.front, Subordinate):
        front = [*subordinate(node.front), node.word(COMMA, ClauseLeaf.COMMA)]
    elif node.front:
        front = node.front.words(1)
    order = [*front, finite, *subject] if front or asked else [*subject, finite]
    return [*order, *middle(node), *prefix, *closing, *after(node)]


def verb_last(node: Clause) -> list[Word]:
    assert node.subject is not None
    finite, prefix, closing = verb_group(node, node.subject.number)
    if prefix:
        finite = (prefix[0][0] + finite[0], (*finite[1], *prefix[0][1]))
    return [*nominal(node.subject, NOMINATIVE), *middle(node), *closing, finite, *after(node)]
