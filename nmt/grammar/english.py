"""Realise a tree in English: subject before verb, do-support, time last."""

from __future__ import annotations

from nmt.grammar.records import SINGULAR_FIRST, SINGULAR_THIRD
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


def words_of(text: str, *leaves: int) -> list[Word]:
    """Return the words of ``text``, each linked to all ``leaves``."""
    return [(word, leaves) for word in text.split()]


def phrase(node: Phrase | Subordinate) -> list[Word]:
    if isinstance(node, Subordinate):
        return [*words_of(node.english, node.leaf), *clause(node.clause)]
    leaves: list[list[int]] = [[] for _ in node.adverbial.english]
    for index, (i, _) in enumerate(node.adverbial.links):
        leaves[i].append(node.leaf + index)
    return [(word, tuple(own)) for word, own in zip(node.adverbial.english, leaves, strict=True)]


def nominal(node: Nominal, *, subject: bool = False) -> list[Word]:
    match node:
        case NounPhrase():
            return noun_phrase(node)
        case Pronoun():
            return [(node.person.english[0 if subject else 1], (node.leaf,))]
        case Name():
            return [(node.english, (node.leaf,))]
        case Both():
            return [*nominal(node.left), ("and", (node.leaf,)), *nominal(node.right)]
        case Gap():
            return []


def noun_phrase(node: NounPhrase) -> list[Word]:
    leaf = node.leaf
    words: list[Word] = []
    if node.numeral:
        words.append((node.numeral[0], (leaf + 1,)))
    words += [(adjective.english, (leaf + 2 + i,)) for i, adjective in enumerate(node.adjectives)]
    text = (node.noun.plural or "") if node.plural else node.noun.singular
    words += words_of(text, leaf + 4)
    if node.determiner:
        article = node.determiner
        # The sound decides, not the spelling: a useful key, an honest man.
        if article == "a" and words[0][0] != "useful" and (words[0][0][0] in "aeiou" or words[0][0] == "honest"):
            article = "an"
        words.insert(0, (article, (leaf,)))
    if node.owner:
        words += [("of", (leaf + 5,)), *noun_phrase(node.owner)]
    if node.modifier:
        words += prepositional(node.modifier)
    if node.relative:
        words += relative(node.relative, node.noun.kind == "person")
    return words


def prepositional(node: PrepositionalPhrase) -> list[Word]:
    return [*words_of(node.preposition.english, node.leaf), *nominal(node.nominal)]


def relative(node: Relative, of_person: bool) -> list[Word]:
    if of_person:
        pronoun = "who" if node.role == "subject" else "whom"
    else:
        pronoun = "that" if node.restrictive and node.role != "oblique" else "which"
    opening: list[Word] = [] if node.restrictive else [(COMMA, (node.leaf + 1,))]
    closing: list[Word] = [] if node.restrictive else [(COMMA, (node.leaf + 2,))]
    before = words_of(node.preposition.english, node.leaf + 3) if node.preposition else []
    return [*opening, *before, (pronoun, (node.leaf,)), *clause(node.clause), *closing]


def predicate(node: Predicate) -> list[Word]:
    leaf = node.leaf
    adjective = node.adjective
    if node.compared is None:
        degree = [(node.degree[0], (leaf,))] if node.degree else []
        return [*degree, (adjective.english, (leaf + 1,))]
    compared = nominal(node.compared)
    if node.equal:
        return [("as", (leaf,)), (adjective.english, (leaf + 1,)), ("as", (leaf + 2,)), *compared]
    return [*words_of(adjective.english_comparative or "", leaf + 1), ("than", (leaf + 2,)), *compared]


def verb_group(node: Clause, number: int, asked: bool) -> tuple[list[Word], list[Word]]:
    """Return the finite auxiliary, if any, and the rest of the verb; ``be`` counts as an auxiliary."""
    leaf = node.leaf
    verb = node.verb
    lexical = (leaf + 1,) if verb is None or verb.particle else (leaf + 1, leaf + 2)
    base = "be" if verb is None else verb.base
    tense = node.tense
    if isinstance(tense, Modal) and not tense.takes_to:
        return [(tense.english[number], (leaf,))], [(base, lexical)]
    if tense == "future":
        return [("will", (leaf,))], [(base, lexical)]
    if tense == "perfect":
        participle = "been" if verb is None else verb.participle
        return [("has" if number == SINGULAR_THIRD else "have", (leaf,))], [(participle, lexical)]
    if verb is None and not isinstance(tense, Modal):
        return [(_be(tense, number), lexical)], []
    needs_do = node.negated or asked
    past = tense == "past" or (isinstance(tense, Modal) and tense.english[0].endswith("ed"))
    do_form = "did" if past else "does" if number == SINGULAR_THIRD else "do"
    auxiliary: list[Word] = [(do_form, ())] if needs_do else []
    if isinstance(tense, Modal):
        finite = "want" if needs_do else tense.english[number]
        return auxiliary, [(finite, (leaf,)), ("to", ()), (base, lexical)]
    assert verb is not None
    if needs_do:
        return auxiliary, [(verb.base, lexical)]
    return [], [(verb.past if past else verb.third if number == SINGULAR_THIRD else verb.base, lexical)]


def _be(tense: str, number: int) -> str:
    if tense == "past":
        return "were" if number not in {SINGULAR_FIRST, SINGULAR_THIRD} else "was"
    return ("am", "is", "are")[number]


def objects(node: Clause) -> list[Word]:
    """Return the objects with the particle: picks up the child, picks him up, looks for him."""
    words = nominal(node.accusative) if node.accusative else []
    dative = nominal(node.dative) if node.dative else []
    particle: list[Word] = [(node.verb.particle, (node.leaf + 2,))] if node.verb and node.verb.particle else []
    if particle and node.verb and node.verb.movable and isinstance(node.accusative, Pronoun):
        words = words + particle
    else:
        words, dative = (particle + words, dative) if words else (words, particle + dative)
    if node.dative_with_to:
        return [*words, ("to", ()), *dative]
    return [*dative, *words]


def complements(node: Clause) -> list[Word]:
    """Return everything after the verb: objects, predicate, place, manner, time, then a dependent clause."""
    words = objects(node)
    if node.predicate:
        words += predicate(node.predicate)
    if node.oblique:
        words += prepositional(node.oblique)
    if node.manner:
        words += phrase(node.manner)
    if node.time:
        words += phrase(node.time)
    if isinstance(node.after, Subordinate):
        words += phrase(node.after)
    elif node.after:
        words += infinitive(node.after)
    return words


def infinitive(node: Clause) -> list[Word]:
    assert node.verb is not None
    verb_leaves = (node.leaf + 1,) if node.verb.particle else (node.leaf + 1, node.leaf + 2)
    return [("to", (node.leaf + 4,)), (node.verb.base, verb_leaves), *complements(node)]


def clause(node: Clause, *, asked: bool = False) -> list[Word]:
    assert node.subject is not None
    auxiliary, rest = verb_group(node, node.subject.number, asked)
    middle: list[Word] = [("not", (node.leaf + 3,))] if node.negated else []
    if middle and not asked and auxiliary and auxiliary[0][0] == "can":
        auxiliary, middle = [("cannot", (*auxiliary[0][1], node.leaf + 3))], []
    if node.frequency:
        middle += phrase(node.frequency)
    front: list[Word] = phrase(node.front) if node.front else []
    if isinstance(node.front, Subordinate):
        front.append((COMMA, (node.leaf + 6,)))
    subject = nominal(node.subject, subject=True)
    order = [*auxiliary, *subject] if asked else [*subject, *auxiliary]
    return [*front, *order, *middle, *rest, *complements(node)]


def sentence(node: Sentence) -> list[Word]:
    """Return all words, before ``tidy``."""
    words: list[Word] = []
    if node.asked and node.asked[0]:
        words.append((node.asked[0], (node.leaf + 3,)))
    words += clause(node.clause, asked=node.asked is not None)
    if node.conjunction and node.second:
        if node.conjunction[0] == "but":
            words.append((COMMA, (node.leaf + 2,)))
        words += [(node.conjunction[0], (node.leaf + 1,)), *clause(node.second)]
    return [*words, (node.mark, (node.leaf,))]
