"""Trees built by hand, compared with English, German and links written by hand."""

from __future__ import annotations

from typing import Any

import pytest

from nmt.grammar.corpus import realise
from nmt.grammar.lexicon import (
    HE,
    IN,
    IT,
    SHE,
    WE,
    WITH,
    Adverbial,
    I,
    Person,
    Preposition,
    all_adjectives,
    all_nouns,
    all_verbs,
)
from nmt.grammar.tree import (
    CAN,
    MUST,
    WANT,
    Both,
    Clause,
    Name,
    NounPhrase,
    Phrase,
    Predicate,
    PrepositionalPhrase,
    Pronoun,
    Relative,
    Sentence,
    Subordinate,
)  # fmt: skip

WHERE, WHEN = ("where", "wo"), ("when", "wann")
NOUNS = {noun.singular: noun for noun in all_nouns()}
ADJECTIVES = {adjective.english: adjective for adjective in all_adjectives()}
VERBS = {f"{verb.base} {verb.particle}".strip(): verb for verb in reversed(all_verbs())}  # the first of two homonyms


def np(english: str, determiner: str = "the", *adjectives: str, **more: Any) -> NounPhrase:
    return NounPhrase(NOUNS[english], determiner, adjectives=tuple(ADJECTIVES[word] for word in adjectives), **more)


def many(english: str, determiner: str = "the", *adjectives: str, **more: Any) -> NounPhrase:
    return np(english, determiner, *adjectives, plural=True, **more)


def adverb(english: str, german: str, links: tuple[tuple[int, int], ...] | None = None) -> Phrase:
    """Return a phrase whose words are linked in order, or by ``links``."""
    source, target = tuple(english.split()), tuple(german.split())
    return Phrase(Adverbial(source, target, links or tuple((i, i) for i in range(len(source)))))


def clause(subject: Any, english: str | None, tense: Any = "present", **more: Any) -> Clause:
    """Return a clause; a verb of None means "be", and a Person stands for its pronoun."""
    more = {key: Pronoun(value) if isinstance(value, Person) else value for key, value in more.items()}
    subject = Pronoun(subject) if isinstance(subject, Person) else subject
    return Clause(subject, VERBS[english] if english else None, tense, **more)


def main(*of_clause: Any, **more: Any) -> Sentence:
    return Sentence(clause(*of_clause, **more))


def place(preposition: Preposition, nominal: NounPhrase) -> PrepositionalPhrase:
    return PrepositionalPhrase(preposition, nominal)


def peter() -> Name:
    return Name("Peter", "Peter")


# Each German word is followed by the positions of the English words that it is linked to.
WORKED = [
    (
        main(np("man", "the", "old"), "give", dative=np("child"), accusative=np("book", "a")),
        "The old man gives the child a book .",
        "Der/0 alte/1 Mann/2 gibt/3 dem/4 Kind/5 ein/6 Buch/7 ./8",
    ),
    (  # German puts the dative first, in any English order
        main(np("man"), "send", "past", dative=np("queen"), accusative=np("letter", "a"), dative_with_to=True),
        "The man sent a letter to the queen .",
        "Der/0 Mann/1 schickte/2 der/6 Königin/7 einen/3 Brief/4 ./8",
    ),
    (  # German puts the accusative first if both are pronouns
        main(SHE, "show", dative=HE, accusative=IT, dative_with_to=True),
        "She shows it to him .",
        "Sie/0 zeigt/1 es/2 ihm/4 ./5",
    ),
    (
        main(np("woman"), "call", "past", negated=True, accusative=I, front=adverb("yesterday", "gestern")),
        "Yesterday the woman did not call me .",
        "Gestern/0 rief/5 die/1 Frau/2 mich/6 nicht/4 an/5 ./7",
    ),
    (
        main(WE, "pick up", MUST, accusative=HE, time=adverb("at eight o'clock", "um acht Uhr")),
        "We must pick him up at eight o'clock .",
        "Wir/0 müssen/1 ihn/3 um/5 acht/6 Uhr/7 abholen/2+4 ./8",
    ),
    (  # not + an: keine
        main(I, "buy", "past", negated=True, accusative=np("newspaper", "a", "expensive")),
        "I did not buy an expensive newspaper .",
        "Ich/0 kaufte/3 keine/2+4 teure/5 Zeitung/6 ./7",
    ),
    (
        Sentence(clause(HE, "sing", CAN, negated=True), None, ("but", "aber"), clause(SHE, "dance", "future")),
        "He cannot sing , but she will dance .",
        "Er/0 kann/1 nicht/1 singen/2 ,/3 aber/4 sie/5 wird/6 tanzen/7 ./8",
    ),
    (
        main(SHE, "laugh", after=Subordinate("because", "weil", clause(np("dog"), "sleep", WANT))),
        "She laughs because the dog wants to sleep .",
        "Sie/0 lacht/1 , weil/2 der/3 Hund/4 schlafen/7 will/5 ./8",
    ),
    (
        main(WE, "stay", front=Subordinate("when", "wenn", clause(IT, "rain")), oblique=place(IN, np("house"))),
        "When it rains , we stay in the house .",
        "Wenn/0 es/1 regnet/2 ,/3 bleiben/5 wir/4 im/6+7 Haus/8 ./9",
    ),
    (
        main(SHE, "hope", after=Subordinate("that", "dass", clause(many("guest"), "eat", "perfect", accusative=IT))),
        "She hopes that the guests have eaten it .",
        "Sie/0 hofft/1 , dass/2 die/3 Gäste/4 es/7 gegessen/6 haben/5 ./8",
    ),
    (
        main(peter(), "try", after=clause(None, "turn off", accusative=np("lamp", "the", "old"))),
        "Peter tries to turn off the old lamp .",
        "Peter/0 versucht/1 , die/5 alte/6 Lampe/7 auszuschalten/2+3+4 ./8",
    ),
    (
        main(
            many("woman", relative=Relative(clause(HE, "dance"), "oblique", restrictive=False, preposition=WITH)),
            None,
            predicate=Predicate(ADJECTIVES["happy"], ("very", "sehr")),
        ),
        "The women , with whom he dances , are very happy .",
        "Die/0 Frauen/1 ,/2 mit/3 denen/4 er/5 tanzt/6 ,/7 sind/8 sehr/9 glücklich/10 ./11",
    ),
    (  # no contraction "im" before a restrictive clause
        main(HE, "live", oblique=place(IN, np("house", relative=Relative(clause(SHE, "build", "past"), "accusative")))),
        "He lives in the house that she built .",
        "Er/0 wohnt/1 in/2 dem/3 Haus/4 , das/5 sie/6 baute/7 ./8",
    ),
    (
        Sentence(clause(np("car", owner=np("baker", "the", "old")), "stand"), WHERE, mark="?"),
        "Where does the car of the old baker stand ?",
        "Wo/0 steht/8 das/2 Auto/3 des/5 alten/6 Bäckers/7 ?/9",
    ),
    (
        Sentence(clause(np("boy"), "get up", "perfect"), WHEN, mark="?"),
        "When has the boy got up ?",
        "Wann/0 ist/1 der/2 Junge/3 aufgestanden/4+5 ?/6",
    ),
    (
        main(np("picture"), None, predicate=Predicate(ADJECTIVES["beautiful"], compared=np("flower", "a"))),
        "The picture is more beautiful than a flower .",
        "Das/0 Bild/1 ist/2 schöner/3+4 als/5 eine/6 Blume/7 ./8",
    ),
    (
        main(
            np("bear"), None, "past", negated=True, predicate=Predicate(ADJECTIVES["old"], compared=peter(), equal=True)
        ),
        "The bear was not as old as Peter .",
        "Der/0 Bär/1 war/2 nicht/3 so/4 alt/5 wie/6 Peter/7 ./8",
    ),
    (  # datives: weak masculine, plural; strong adjectives without a determiner
        main(many("tourist", "many", "young"), "thank", dative=Both(np("boy"), many("friend", "my", "honest"))),
        "Many young tourists thank the boy and my honest friends .",
        "Viele/0 junge/1 Touristen/2 danken/3 dem/4 Jungen/5 und/6 meinen/7 ehrlichen/8 Freunden/9 ./10",
    ),
    (
        main(np("judge", "a", "honest"), "drink", "future", accusative=np("milk", "", "cold")),
        "An honest judge will drink cold milk .",
        "Ein/0 ehrlicher/1 Richter/2 wird/3 kalte/5 Milch/6 trinken/4 ./7",
    ),
    (  # "am" translates two English words, and the verb stays second
        main(
            SHE,
            "work",
            frequency=adverb("never", "nie"),
            front=adverb("in the morning", "am Morgen", ((0, 0), (1, 0), (2, 1))),
        ),
        "In the morning she never works .",
        "Am/0+1 Morgen/2 arbeitet/5 sie/3 nie/4 ./6",
    ),
]


@pytest.mark.parametrize(("tree", "english", "german"), WORKED, ids=[english for _, english, _ in WORKED])
def test_worked_example(tree: Sentence, english: str, german: str) -> None:
    words = [word.partition("/")[::2] for word in german.split()]
    links = sorted((int(i), j) for j, (_, places) in enumerate(words) for i in places.split("+") if i)
    pair = realise(tree)
    assert pair.source == english
    assert pair.target == " ".join(word for word, _ in words)
    assert pair.links == tuple(links)
    assert realise(tree) == pair
