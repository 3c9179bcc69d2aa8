"""Realise a tree in German: finite verb second or last, four cases, agreement."""

from __future__ import annotations

from nmt.grammar.declension import adjective_ending, determiner, relative_pronoun
from nmt.grammar.records import ACCUSATIVE, DATIVE, GENITIVE, NOMINATIVE
from nmt.grammar.tree import (
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
    "in dem": "im", "in das": "ins", "an dem": "am", "zu dem": "zum", "zu der": "zur", "von dem": "vom",
}  # fmt: skip
BE = {"present": ("bin", "ist", "sind"), "past": ("war", "war", "waren")}
HAVE = ("habe", "hat", "haben")
WILL = ("werde", "wird", "werden")


def phrase(node: Phrase) -> list[Word]:
    leaves: list[list[int]] = [[] for _ in node.adverbial.german]
    for index, (_, j) in enumerate(node.adverbial.links):
        leaves[j].append(node.leaf + index)
    return [(word, tuple(own)) for word, own in zip(node.adverbial.german, leaves, strict=True)]


def subordinate(node: Subordinate) -> list[Word]:
    words: list[Word] = [(word, (node.leaf,)) for word in node.german.split()]
    return words + verb_last(node.clause)


def nominal(node: Nominal, case: int, negation: int | None = None) -> list[Word]:
    match node:
        case NounPhrase():
            return noun_phrase(node, case, negation)
        case Pronoun():
            return [(node.person.german[case], (node.leaf,))]
        case Name():
            return [(node.german, (node.leaf,))]
        case Both():
            return [*nominal(node.left, case), ("und", (node.leaf,)), *nominal(node.right, case)]
        case Gap():
            return []


def noun_phrase(node: NounPhrase, case: int, negation: int | None = None) -> list[Word]:
    """Return determiner, numeral, adjectives, noun and modifiers; leaf ``negation`` ("not") turns ein into kein."""
    leaf = node.leaf
    gender = "p" if node.plural else node.noun.gender
    english = node.determiner if negation is None else "no"
    leaves = (leaf,) if negation is None else (leaf, negation) if node.determiner else (negation,)
    words: list[Word] = [(determiner(english, gender, case), leaves)] if english else []
    if node.numeral:
        words.append((node.numeral[1], (leaf + 1,)))
    ending = adjective_ending(english, gender, case)
    words += [(adjective.stem + ending, (leaf + 2 + i,)) for i, adjective in enumerate(node.adjectives)]
    words.append((node.noun.forms[case + 4 * node.plural], (leaf + 4,)))
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
    return [(german, (node.leaf,)), *words]


def relative(node: Relative, gender: str) -> list[Word]:
    case = {"subject": NOMINATIVE, "accusative": ACCUSATIVE, "dative": DATIVE}.get(node.role)
    before: list[Word] = []
    if node.preposition:
        case = node.preposition.case
        before = [(node.preposition.german, (node.leaf + 3,))]
    assert case is not None
    # English has no commas around a restrictive clause, so the German commas stay unlinked.
    opening, closing = ((), ()) if node.restrictive else ((node.leaf + 1,), (node.leaf + 2,))
    pronoun = (relative_pronoun(gender, case), (node.leaf,))
    return [(COMMA, opening), *before, pronoun, *verb_last(node.clause), (COMMA, closing)]


def predicate(node: Predicate) -> list[Word]:
    leaf = node.leaf
    adjective = node.adjective
    if node.compared is None:
        degree = [(node.degree[1], (leaf,))] if node.degree else []
        return [*degree, (adjective.german, (leaf + 1,))]
    compared = nominal(node.compared, NOMINATIVE)
    if node.equal:
        return [("so", (leaf,)), (adjective.german, (leaf + 1,)), ("wie", (leaf + 2,)), *compared]
    return [(adjective.german_comparative or "", (leaf + 1,)), ("als", (leaf + 2,)), *compared]


def verb_group(node: Clause, number: int) -> tuple[Word, list[Word], list[Word]]:
    """Return the finite verb, its detached prefix, and the non-finite forms at the end of the clause."""
    leaf = node.leaf
    verb = node.verb
    verb_leaves = (leaf + 1, leaf + 2)
    tense = node.tense
    if tense == "present" or tense == "past":
        if verb is None:
            return (BE[tense][number], verb_leaves), [], []
        form = (verb.present_forms if tense == "present" else verb.past_forms)[number]
        if verb.prefix:
            return (form, (leaf + 1,)), [(verb.prefix, (leaf + 2,))], []
        return (form, verb_leaves), [], []
    infinitive = "sein" if verb is None else verb.prefix + verb.german
    if isinstance(tense, Modal):
        return (tense.german[number], (leaf,)), [], [(infinitive, verb_leaves)]
    if tense == "future":
        return (WILL[number], (leaf,)), [], [(infinitive, verb_leaves)]
    participle = "gewesen" if verb is None else verb.german_participle
    forms = BE["present"] if verb is None or verb.with_sein else HAVE
    return (forms[number], (leaf,)), [], [(participle, verb_leaves)]


def negated_object(node: Clause) -> Nominal | None:
    """Return the object whose ein becomes kein, if the clause is negated and has one."""
    for candidate in (node.accusative, node.dative):
        if node.negated and isinstance(candidate, NounPhrase) and candidate.indefinite:
            return candidate
    return None


def middle(node: Clause) -> list[Word]:
    """Return the middle field: pronouns, time, other objects (dative first), nicht, manner, predicate, place."""
    leaf = node.leaf
    kein = negated_object(node)
    objects = [(node.accusative, ACCUSATIVE), (node.dative, DATIVE)]
    words: list[Word] = []
    for nominal_node, case in objects:
        if isinstance(nominal_node, Pronoun):
            words += nominal(nominal_node, case)
    for adverb in (node.time, node.frequency):
        if adverb:
            words += phrase(adverb)
    for nominal_node, case in reversed(objects):
        if nominal_node and not isinstance(nominal_node, Pronoun):
            words += nominal(nominal_node, case, leaf + 3 if nominal_node is kein else None)
    if node.negated and not kein:
        words.append(("nicht", (leaf + 3,)))
    if node.manner:
        words += phrase(node.manner)
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
    verb_leaves = (node.leaf + 1, node.leaf + 2)
    closing: list[Word]
    if verb.prefix:
        closing = [(f"{verb.prefix}zu{verb.german}", (node.leaf + 4, *verb_leaves))]
    else:
        closing = [("zu", (node.leaf + 4,)), (verb.german, verb_leaves)]
    return [*middle(node), *closing, *after(node)]


def verb_second(node: Clause, *, asked: bool = False) -> list[Word]:
    assert node.subject is not None
    finite, prefix, closing = verb_group(node, node.subject.number)
    subject = nominal(node.subject, NOMINATIVE)
    front: list[Word] = []
    if isinstance(node.front, Subordinate):
        front = [*subordinate(node.front), (COMMA, (node.leaf + 6,))]
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
    """Return all words, before ``tidy``."""
    words: list[Word] = []
    if node.asked and node.asked[1]:
        words.append((node.asked[1], (node.leaf + 3,)))
    words += verb_second(node.clause, asked=node.asked is not None)
    if node.conjunction and node.second:
        if node.conjunction[0] == "but":
            words.append((COMMA, (node.leaf + 2,)))
        words += [(node.conjunction[1], (node.leaf + 1,)), *verb_second(node.second)]
    return [*words, (node.mark, (node.leaf,))]
