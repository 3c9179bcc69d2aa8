"""A tree said in English: subject before verb, do-support, time last."""

from __future__ import annotations

from nmt.tasks.grammar.lexicon import SINGULAR_FIRST, SINGULAR_THIRD
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


def spread(text: str, *at: int) -> list[Word]:
    """Every word of ``text`` expresses all the leaves ``at``."""
    return [(word, at) for word in text.split()]


def phrase(node: Phrase | Subordinate) -> list[Word]:
    if isinstance(node, Subordinate):
        return [*spread(node.english, node.at), *clause(node.clause)]
    keys: list[list[int]] = [[] for _ in node.adverbial.english]
    for index, (i, _) in enumerate(node.adverbial.links):
        keys[i].append(node.at + index)
    return [(word, tuple(own)) for word, own in zip(node.adverbial.english, keys, strict=True)]


def nominal(node: Nominal, *, subject: bool = False) -> list[Word]:
    match node:
        case NounPhrase():
            return noun_phrase(node)
        case Pronoun():
            return [(node.person.english[0 if subject else 1], (node.at,))]
        case Name():
            return [(node.english, (node.at,))]
        case Both():
            return [*nominal(node.left), ("and", (node.at,)), *nominal(node.right)]
        case Gap():
            return []


def noun_phrase(node: NounPhrase) -> list[Word]:
    at = node.at
    words: list[Word] = []
    if node.numeral:
        words.append((node.numeral[0], (at + 1,)))
    words += [(one.english, (at + 2 + i,)) for i, one in enumerate(node.adjectives)]
    text = (node.noun.plural or "") if node.plural else node.noun.singular
    words += spread(text, at + 4)
    if node.determiner:
        article = node.determiner
        # By sound, not by spelling: a useful key, an honest man.
        if article == "a" and words[0][0] != "useful" and (words[0][0][0] in "aeiou" or words[0][0] == "honest"):
            article = "an"
        words.insert(0, (article, (at,)))
    if node.owner:
        words += [("of", (at + 5,)), *noun_phrase(node.owner)]
    if node.modifier:
        words += prepositional(node.modifier)
    if node.relative:
        words += relative(node.relative, node.noun.kind == "person")
    return words


def prepositional(node: PrepositionalPhrase) -> list[Word]:
    return [*spread(node.preposition.english, node.at), *nominal(node.nominal)]


def relative(node: Relative, of_person: bool) -> list[Word]:
    if of_person:
        pronoun = "who" if node.role == "subject" else "whom"
    else:
        pronoun = "that" if node.restrictive and node.role != "oblique" else "which"
    opening: list[Word] = [] if node.restrictive else [(COMMA, (node.at + 1,))]
    closing: list[Word] = [] if node.restrictive else [(COMMA, (node.at + 2,))]
    before = spread(node.preposition.english, node.at + 3) if node.preposition else []
    return [*opening, *before, (pronoun, (node.at,)), *clause(node.clause), *closing]


def predicate(node: Predicate) -> list[Word]:
    at = node.at
    adjective = node.adjective
    if node.compared is None:
        degree = [(node.degree[0], (at,))] if node.degree else []
        return [*degree, (adjective.english, (at + 1,))]
    compared = nominal(node.compared)
    if node.equal:
        return [("as", (at,)), (adjective.english, (at + 1,)), ("as", (at + 2,)), *compared]
    return [*spread(adjective.english_comparative or "", at + 1), ("than", (at + 2,)), *compared]


def verb_group(node: Clause, number: int, asked: bool) -> tuple[list[Word], list[Word]]:
    """The finite auxiliary, if any, and the rest of the verb; ``be`` itself counts as an auxiliary."""
    at = node.at
    one = node.verb
    lexical = (at + 1,) if one is None or one.particle else (at + 1, at + 2)
    base = "be" if one is None else one.base
    tense = node.tense
    if isinstance(tense, Modal) and not tense.takes_to:
        return [(tense.english[number], (at,))], [(base, lexical)]
    if tense == "future":
        return [("will", (at,))], [(base, lexical)]
    if tense == "perfect":
        participle = "been" if one is None else one.participle
        return [("has" if number == SINGULAR_THIRD else "have", (at,))], [(participle, lexical)]
    if one is None and not isinstance(tense, Modal):
        return [(_be(tense, number), lexical)], []
    supported = node.negated or asked
    past = tense == "past" or (isinstance(tense, Modal) and tense.english[0].endswith("ed"))
    support = "did" if past else "does" if number == SINGULAR_THIRD else "do"
    auxiliary: list[Word] = [(support, ())] if supported else []
    if isinstance(tense, Modal):
        finite = "want" if supported else tense.english[number]
        return auxiliary, [(finite, (at,)), ("to", ()), (base, lexical)]
    assert one is not None
    if supported:
        return auxiliary, [(one.base, lexical)]
    return [], [(one.past if past else one.third if number == SINGULAR_THIRD else one.base, lexical)]


def _be(tense: str, number: int) -> str:
    if tense == "past":
        return "were" if number not in {SINGULAR_FIRST, SINGULAR_THIRD} else "was"
    return ("am", "is", "are")[number]


def objects(node: Clause) -> list[Word]:
    """Objects with the particle in its place: picks up the child, picks him up, looks for him."""
    words = nominal(node.accusative) if node.accusative else []
    dative = nominal(node.dative) if node.dative else []
    particle: list[Word] = [(node.verb.particle, (node.at + 2,))] if node.verb and node.verb.particle else []
    if particle and node.verb and node.verb.movable and isinstance(node.accusative, Pronoun):
        words = words + particle
    else:
        words, dative = (particle + words, dative) if words else (words, particle + dative)
    if node.dative_with_to:
        return [*words, ("to", ()), *dative]
    return [*dative, *words]


def complements(node: Clause) -> list[Word]:
    """Everything after the verb: objects, predicate, manner, place, time, then a dependent clause."""
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
    own = (node.at + 1,) if node.verb.particle else (node.at + 1, node.at + 2)
    return [("to", (node.at + 4,)), (node.verb.base, own), *complements(node)]


def clause(node: Clause, *, asked: bool = False) -> list[Word]:
    assert node.subject is not None
    auxiliary, rest = verb_group(node, node.subject.number, asked)
    middle: list[Word] = [("not", (node.at + 3,))] if node.negated else []
    if middle and not asked and auxiliary and auxiliary[0][0] == "can":
        auxiliary, middle = [("cannot", (*auxiliary[0][1], node.at + 3))], []
    if node.frequency:
        middle += phrase(node.frequency)
    front: list[Word] = phrase(node.front) if node.front else []
    if isinstance(node.front, Subordinate):
        front.append((COMMA, (node.at + 6,)))
    subject = nominal(node.subject, subject=True)
    order = [*auxiliary, *subject] if asked else [*subject, *auxiliary]
    return [*front, *order, *middle, *rest, *complements(node)]


def sentence(node: Sentence) -> list[Word]:
    """All words, before commas are tidied and the first letter is raised."""
    words: list[Word] = []
    if node.asked and node.asked[0]:
        words.append((node.asked[0], (node.at + 3,)))
    words += clause(node.clause, asked=node.asked is not None)
    if node.conjunction and node.second:
        if node.conjunction[0] == "but":
            words.append((COMMA, (node.at + 2,)))
        words += [(node.conjunction[0], (node.at + 1,)), *clause(node.second)]
    return [*words, (node.mark, (node.at,))]
