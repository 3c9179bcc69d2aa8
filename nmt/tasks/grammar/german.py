"""The same tree said in German: finite verb second or last, four cases, agreement throughout."""

from __future__ import annotations

from nmt.tasks.grammar.declension import adjective_ending, determiner, relative_pronoun
from nmt.tasks.grammar.lexicon import ACCUSATIVE, DATIVE, GENITIVE, NOMINATIVE
from nmt.tasks.grammar.tree import (
    Both,
    Clause,
    Gap,
    Modal,
    Name,
    Nominal,
    NounPhrase,
    Phrase,
    Predicate,
    PrepositionalPhrase,
    Pronoun,
    Relative,
    Sentence,
    Subordinate,
    Word,
)

COMMA = ","
CONTRACTIONS = {
    "in dem": "im",
    "in das": "ins",
    "an dem": "am",
    "zu dem": "zum",
    "zu der": "zur",
    "von dem": "vom",
}
BE = {"present": ("bin", "ist", "sind"), "past": ("war", "war", "waren")}
HAVE = ("habe", "hat", "haben")
WILL = ("werde", "wird", "werden")


def phrase(node: Phrase) -> list[Word]:
    keys: list[list[int]] = [[] for _ in node.adverbial.german]
    for index, (_, j) in enumerate(node.adverbial.links):
        keys[j].append(node.at + index)
    return [(word, tuple(own)) for word, own in zip(node.adverbial.german, keys, strict=True)]


def subordinate(node: Subordinate) -> list[Word]:
    words: list[Word] = [(word, (node.at,)) for word in node.german.split()]
    return words + verb_last(node.clause)


def nominal(node: Nominal, case: int, negation: int | None = None) -> list[Word]:
    match node:
        case NounPhrase():
            return noun_phrase(node, case, negation)
        case Pronoun():
            return [(node.person.german[case], (node.at,))]
        case Name():
            return [(node.german, (node.at,))]
        case Both():
            return [*nominal(node.left, case), ("und", (node.at,)), *nominal(node.right, case)]
        case Gap():
            return []


def noun_phrase(node: NounPhrase, case: int, negation: int | None = None) -> list[Word]:
    """Determiner, numeral, adjectives, noun; ``negation`` is the leaf of a ``not`` that turns ein into kein."""
    at = node.at
    gender = "p" if node.plural else node.noun.gender
    meant = node.determiner if negation is None else "no"
    keys = (at,) if negation is None else (at, negation) if node.determiner else (negation,)
    words: list[Word] = [(determiner(meant, gender, case), keys)] if meant else []
    if node.numeral:
        words.append((node.numeral[1], (at + 1,)))
    ending = adjective_ending(meant, gender, case)
    words += [(one.stem + ending, (at + 2 + i,)) for i, one in enumerate(node.adjectives)]
    words.append((node.noun.forms[case + 4 * node.plural], (at + 4,)))
    if node.owner:
        words += noun_phrase(node.owner, GENITIVE)
    if node.modifier:
        words += prepositional(node.modifier)
    if node.relative:
        words += relative(node.relative, gender)
    return words


def prepositional(node: PrepositionalPhrase) -> list[Word]:
    """Contracted (im, zum, …) unless a restrictive relative clause singles the noun out: in dem Haus, das …"""
    words = nominal(node.nominal, node.preposition.case)
    german = node.preposition.german
    inner = node.nominal
    if isinstance(inner, NounPhrase) and inner.determiner == "the":
        singled_out = inner.relative is not None and inner.relative.restrictive
        contracted = CONTRACTIONS.get(f"{german} {words[0][0]}")
        if contracted and not singled_out:
            return [(contracted, (node.at, *words[0][1])), *words[1:]]
    return [(german, (node.at,)), *words]


def relative(node: Relative, gender: str) -> list[Word]:
    case = {"subject": NOMINATIVE, "accusative": ACCUSATIVE, "dative": DATIVE}.get(node.role)
    before: list[Word] = []
    if node.preposition:
        case = node.preposition.case
        before = [(node.preposition.german, (node.at + 3,))]
    assert case is not None
    # English puts no commas around a restrictive clause: German's have no counterpart.
    opening, closing = ((), ()) if node.restrictive else ((node.at + 1,), (node.at + 2,))
    pronoun = (relative_pronoun(gender, case), (node.at,))
    return [(COMMA, opening), *before, pronoun, *verb_last(node.clause), (COMMA, closing)]


def predicate(node: Predicate) -> list[Word]:
    at = node.at
    adjective = node.adjective
    if node.compared is None:
        degree = [(node.degree[1], (at,))] if node.degree else []
        return [*degree, (adjective.german, (at + 1,))]
    compared = nominal(node.compared, NOMINATIVE)
    if node.equal:
        return [("so", (at,)), (adjective.german, (at + 1,)), ("wie", (at + 2,)), *compared]
    return [(adjective.german_comparative or "", (at + 1,)), ("als", (at + 2,)), *compared]


def verb_group(node: Clause, number: int) -> tuple[Word, list[Word], list[Word]]:
    """The finite verb, its detached prefix, and the infinite forms that close the clause."""
    at = node.at
    one = node.verb
    both = (at + 1, at + 2)
    tense = node.tense
    if tense == "present" or tense == "past":
        if one is None:
            return (BE[tense][number], both), [], []
        form = (one.present_forms if tense == "present" else one.past_forms)[number]
        if one.prefix:
            return (form, (at + 1,)), [(one.prefix, (at + 2,))], []
        return (form, both), [], []
    infinitive = "sein" if one is None else one.prefix + one.german
    if isinstance(tense, Modal):
        return (tense.german[number], (at,)), [], [(infinitive, both)]
    if tense == "future":
        return (WILL[number], (at,)), [], [(infinitive, both)]
    participle = "gewesen" if one is None else one.german_participle
    forms = BE["present"] if one is None or one.with_sein else HAVE
    return (forms[number], (at,)), [], [(participle, both)]


def negated_object(node: Clause) -> Nominal | None:
    """The object whose ein becomes kein, if the clause is negated and has one."""
    for candidate in (node.accusative, node.dative):
        if node.negated and isinstance(candidate, NounPhrase) and candidate.indefinite:
            return candidate
    return None


def middle(node: Clause) -> list[Word]:
    """The middle field: pronouns, time, other objects (dative first), nicht, manner, predicate, place."""
    at = node.at
    kein = negated_object(node)
    objects = [(node.accusative, ACCUSATIVE), (node.dative, DATIVE)]
    words: list[Word] = []
    for thing, case in objects:
        if isinstance(thing, Pronoun):
            words += nominal(thing, case)
    for adverb in (node.time, node.frequency):
        if adverb:
            words += phrase(adverb)
    for thing, case in reversed(objects):
        if thing and not isinstance(thing, Pronoun):
            words += nominal(thing, case, at + 3 if thing is kein else None)
    if node.negated and not kein:
        words.append(("nicht", (at + 3,)))
    if node.manner:
        words += phrase(node.manner)
    if node.predicate:
        words += predicate(node.predicate)
    if node.oblique:
        words += prepositional(node.oblique)
    return words


def after(node: Clause) -> list[Word]:
    """What follows the closing verb: a clause with its conjunction, or an infinitive with zu, behind a comma."""
    if node.after is None:
        return []
    dependent = subordinate(node.after) if isinstance(node.after, Subordinate) else infinitive(node.after)
    return [(COMMA, ()), *dependent]


def infinitive(node: Clause) -> list[Word]:
    one = node.verb
    assert one is not None
    both = (node.at + 1, node.at + 2)
    closing: list[Word]
    if one.prefix:
        closing = [(f"{one.prefix}zu{one.german}", (node.at + 4, *both))]
    else:
        closing = [("zu", (node.at + 4,)), (one.german, both)]
    return [*middle(node), *closing, *after(node)]


def verb_second(node: Clause, *, asked: bool = False) -> list[Word]:
    assert node.subject is not None
    finite, prefix, closing = verb_group(node, node.subject.number)
    subject = nominal(node.subject, NOMINATIVE)
    front: list[Word] = []
    if isinstance(node.front, Subordinate):
        front = [*subordinate(node.front), (COMMA, (node.at + 6,))]
    elif node.front:
        front = phrase(node.front)
    order = [*front, finite, *subject] if front or asked else [*subject, finite]
    return [*order, *middle(node), *prefix, *closing, *after(node)]


def verb_last(node: Clause) -> list[Word]:
    assert node.subject is not None
    finite, prefix, closing = verb_group(node, node.subject.number)
    if prefix:
        finite = (prefix[0][0] + finite[0], (*finite[1], *prefix[0][1]))
    return [*nominal(node.subject, NOMINATIVE), *middle(node), *closing, finite, *after(node)]


def sentence(node: Sentence) -> list[Word]:
    """All words, before commas are tidied and the first letter is raised."""
    words: list[Word] = []
    if node.asked and node.asked[1]:
        words.append((node.asked[1], (node.at + 3,)))
    words += verb_second(node.clause, asked=node.asked is not None)
    if node.conjunction and node.second:
        if node.conjunction[0] == "but":
            words.append((COMMA, (node.at + 2,)))
        words += [(node.conjunction[1], (node.at + 1,)), *verb_second(node.second)]
    return [*words, (node.mark, (node.at,))]
