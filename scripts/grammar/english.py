"""Realise a tree in English: subject before verb, do-support, time last."""

from __future__ import annotations

from scripts.grammar.lexicon import SINGULAR_THIRD
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
    Phrase,
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
BE = {"present": ("am", "is", "are"), "past": ("was", "was", "were")}


def phrase(node: Phrase | Subordinate) -> list[Word]:
    if isinstance(node, Subordinate):
        return [*node.split(node.english), *clause(node.clause)]
    return node.words(0)


def nominal(node: Nominal, *, subject: bool = False) -> list[Word]:
    match node:
        case NounPhrase():
            return noun_phrase(node)
        case Pronoun():
            return [node.word(node.person.english[0 if subject else 1])]
        case Name():
            return [node.word(node.english)]
        case Both():
            return [*nominal(node.left), node.word("and"), *nominal(node.right)]
        case Gap():
            return []


def noun_phrase(node: NounPhrase) -> list[Word]:
    words: list[Word] = []
    if node.numeral:
        words.append(node.word(node.numeral[0], NounLeaf.NUMERAL))
    words += [node.word(adjective.english, NounLeaf.ADJECTIVE + i) for i, adjective in enumerate(node.adjectives)]
    text = (node.noun.plural or "") if node.plural else node.noun.singular
    words += node.split(text, NounLeaf.NOUN)
    if node.determiner:
        article = node.determiner
        # The sound decides, not the spelling: a useful key, an honest man.
        if article == "a" and words[0][0] != "useful" and (words[0][0][0] in "aeiou" or words[0][0] == "honest"):
            article = "an"
        words.insert(0, node.word(article, NounLeaf.DETERMINER))
    if node.owner:
        words += [node.word("of", NounLeaf.OF), *noun_phrase(node.owner)]
    if node.modifier:
        words += prepositional(node.modifier)
    if node.relative:
        words += relative(node.relative, node.noun.kind == "person")
    return words


def prepositional(node: PrepositionalPhrase) -> list[Word]:
    return [*node.split(node.preposition.english), *nominal(node.nominal)]


def relative(node: Relative, of_person: bool) -> list[Word]:
    if of_person:
        pronoun = "who" if node.role == "subject" else "whom"
    else:
        pronoun = "that" if node.restrictive and node.role != "oblique" else "which"
    before = node.split(node.preposition.english, RelativeLeaf.PREPOSITION) if node.preposition else []
    words = [*before, node.word(pronoun, RelativeLeaf.PRONOUN), *clause(node.clause)]
    if node.restrictive:
        return words
    return [node.word(COMMA, RelativeLeaf.OPENING_COMMA), *words, node.word(COMMA, RelativeLeaf.CLOSING_COMMA)]


def predicate(node: Predicate) -> list[Word]:
    adjective = node.word(node.adjective.english, PredicateLeaf.ADJECTIVE)
    if node.compared is None:
        return [*([node.word(node.degree[0])] if node.degree else []), adjective]
    compared = nominal(node.compared)
    if node.equal:
        return [node.word("as"), adjective, node.word("as", PredicateLeaf.THAN), *compared]
    comparative = node.split(node.adjective.english_comparative or "", PredicateLeaf.ADJECTIVE)
    return [*comparative, node.word("than", PredicateLeaf.THAN), *compared]


def verb_leaves(node: Clause) -> tuple[int, ...]:
    """Return the leaves of the verb, without that of an English particle, which is a separate word."""
    return node.verb_leaves[:1] if node.verb and node.verb.particle else node.verb_leaves


def verb_group(node: Clause, number: int, asked: bool) -> tuple[list[Word], list[Word]]:
    """Return the finite auxiliary, if any, and the rest of the verb; ``be`` counts as an auxiliary."""
    verb = node.verb
    tense = node.tense
    lexical = verb_leaves(node)
    base = "be" if verb is None else verb.base
    if isinstance(tense, Modal) and not tense.takes_to:
        return [node.word(tense.english[number])], [(base, lexical)]
    if tense == "future":
        return [node.word("will")], [(base, lexical)]
    if tense == "perfect":
        participle = "been" if verb is None else verb.participle
        return [node.word("has" if number == SINGULAR_THIRD else "have")], [(participle, lexical)]
    if verb is None and not isinstance(tense, Modal):
        return [(BE[tense][number], lexical)], []
    needs_do = node.negated or asked
    past = tense == "past" or (isinstance(tense, Modal) and tense.english[0].endswith("ed"))
    do_form = "did" if past else "does" if number == SINGULAR_THIRD else "do"
    do: list[Word] = [(do_form, ())] if needs_do else []
    if isinstance(tense, Modal):
        finite = "want" if needs_do else tense.english[number]
        return do, [node.word(finite), ("to", ()), (base, lexical)]
    assert verb is not None
    if not needs_do:
        base = verb.past if past else verb.third if number == SINGULAR_THIRD else verb.base
    return do, [(base, lexical)]


def objects(node: Clause) -> list[Word]:
    """Return the objects with the particle: picks up the child, picks him up, looks for him."""
    words = nominal(node.accusative) if node.accusative else []
    dative = nominal(node.dative) if node.dative else []
    particle: list[Word] = [(node.verb.particle, node.verb_leaves[1:])] if node.verb and node.verb.particle else []
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
    for adverb in (node.manner, node.time):
        words += phrase(adverb) if adverb else []
    if node.after:
        words += phrase(node.after) if isinstance(node.after, Subordinate) else infinitive(node.after)
    return words


def infinitive(node: Clause) -> list[Word]:
    assert node.verb is not None
    return [node.word("to", ClauseLeaf.TO), (node.verb.base, verb_leaves(node)), *complements(node)]


def clause(node: Clause, *, asked: bool = False) -> list[Word]:
    assert node.subject is not None
    auxiliary, rest = verb_group(node, node.subject.number, asked)
    middle: list[Word] = [node.word("not", ClauseLeaf.NOT)] if node.negated else []
    if middle and not asked and auxiliary and auxiliary[0][0] == "can":
        auxiliary, middle = [("cannot", (*auxiliary[0][1], *middle[0][1]))], []
    if node.frequency:
        middle += phrase(node.frequency)
    front: list[Word] = phrase(node.front) if node.front else []
    if isinstance(node.front, Subordinate):
        front.append(node.word(COMMA, ClauseLeaf.COMMA))
    subject = nominal(node.subject, subject=True)
    order = [*auxiliary, *subject] if asked else [*subject, *auxiliary]
    return [*front, *order, *middle, *rest, *complements(node)]
