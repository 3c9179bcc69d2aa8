"""The generated German, as a speaker of German knows it: agreement, case and where the verb stands."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from nmt.tasks.grammar.lexicon import all_verbs

MARKS = {",", ".", "?"}
CONJUNCTIONS = set("dass ob weil obwohl als wenn bevor bis während sobald".split())
RELATIVES = set("der die das den dem denen".split())
AUXILIARIES = set(
    "bin ist sind war waren habe hat haben werde wird werden kann können konnte konnten muss müssen sollte sollten "
    "darf dürfen will wollen wollte wollten".split()
)


@pytest.fixture(scope="module")
def german(corpus: list[tuple[list[str], list[str], object]]) -> list[list[str]]:
    """German sentences; a conjunction, which never is anything else, starts them in lower case."""
    sentences = [words for _, words, _ in corpus]
    return [[words[0].lower(), *words[1:]] if words[0].lower() in CONJUNCTIONS else words for words in sentences]


# By heart: a noun of a row takes these articles and no other, and the row as a whole takes them all.
ARTICLES = {
    "der den dem": "Mann Hund Arzt Freund Sohn Koch Gast Dieb Vogel Wolf Hut", "des": "Mannes Kindes Arztes Freundes",
    "die der": "Frau Katze Mutter Tante Hexe Kuh Maus Tür Männer Kinder Ärzte",
    "das dem": "Kind Pferd Schwein Haus Dorf",
    "den": "Männern Kindern Ärzten Hunden Freunden Söhnen", "die der den": "Frauen Katzen Hexen Tanten",
    "der": "Junge Student Bär Löwe Affe", "die der den dem des": "Jungen Studenten Touristen Polizisten",
}  # fmt: skip
EIN = {
    "ein einen einem": "Mann Hund Arzt Freund Sohn Hut", "eine einer": "Frau Katze Mutter Tante Hexe Kuh",
    "ein einem": "Kind Pferd Schwein Mädchen Haus", "ein": "Junge Student Bär", "einen einem": "Jungen Studenten Bären",
}  # fmt: skip
# The ending of an adjective between this article and this noun.
ENDINGS = {
    "Mann": {"der": "e", "den": "en", "dem": "en", "ein": "er", "einen": "en", "einem": "en", "mein": "er"},
    "Frau": {"die": "e", "der": "en", "eine": "e", "einer": "en", "diese": "e"},
    "Kind": {"das": "e", "dem": "en", "ein": "es", "einem": "en", "mein": "es", "dieses": "e"},
    "Kinder": {"die": "en", "diese": "en", "viele": "e", "meine": "en"},
    "Kindern": {"den": "en", "vielen": "en"},
}  # fmt: skip


@pytest.mark.parametrize("table", [ARTICLES, EIN], ids=["der", "ein"])
def test_articles_agree_with_their_noun(german: list[list[str]], table: dict[str, str]) -> None:
    seen: dict[str, set[str]] = {name: set() for names in table.values() for name in names.split()}
    every = {article for articles in table for article in articles.split()}
    for words in german:
        for j, word in enumerate(words[1:], 1):
            # Behind a comma, or a comma and a preposition, "der" may be a relative pronoun before a bare plural.
            if word in seen and words[j - 1] in every and "," not in words[max(0, j - 3) : j - 1]:
                seen[word].add(words[j - 1])
    for articles, names in table.items():
        assert all(seen[name] <= set(articles.split()) for name in names.split()), seen
        assert set().union(*(seen[name] for name in names.split())) == set(articles.split()), names


def test_adjectives_end_as_their_article_asks(german: list[list[str]]) -> None:
    stems = {"alt", "jung", "arm", "reich", "stark", "schwach", "klug", "dünn", "dick", "schön", "müd", "traurig"}
    seen: dict[str, dict[str, set[str]]] = {name: {article: set() for article in row} for name, row in ENDINGS.items()}
    for words in german:
        for article, word, name in zip(words, words[1:], words[2:], strict=False):
            stem = next((stem for stem in stems if word.startswith(stem)), None)
            if stem and article in seen.get(name, {}):
                seen[name][article].add(word.removeprefix(stem))
    assert seen == {name: {article: {ending} for article, ending in row.items()} for name, row in ENDINGS.items()}


def test_prepositions_govern_their_case(german: list[list[str]]) -> None:
    dative = {"dem", "der", "den", "einem", "einer", "keinem"}
    accusative = {"den", "die", "das", "einen", "eine", "ein"}
    either = dative | accusative | {"des", "eines"}
    cases = dict.fromkeys(("mit", "von", "vor", "hinter", "neben"), dative)
    cases |= dict.fromkeys(("für", "ohne", "gegen", "um", "über"), accusative)
    seen: dict[str, set[str]] = {preposition: set() for preposition in cases}
    for words in german:
        for preposition, article in zip(words, words[1:], strict=False):
            if preposition in cases and article in either:
                seen[preposition].add(article)
    assert all(found and found <= cases[preposition] for preposition, found in seen.items()), seen
    assert seen["mit"] >= {"dem", "der", "den", "einem", "einer"} and seen["für"] >= {"den", "die", "das"}


def finite_forms() -> tuple[set[str], set[str]]:
    """Finite verbs as they stand second (without a prefix that comes off), and as they stand last."""
    forms = [(one.prefix, form) for one in all_verbs() for form in one.present_forms + one.past_forms]
    return {form for _, form in forms} | AUXILIARIES, {prefix + form for prefix, form in forms} | AUXILIARIES


def clauses(words: list[str]) -> Iterator[tuple[int, int]]:
    """Start and end of what stands between commas, where no relative clause interrupts it."""
    commas = [j for j, word in enumerate(words) if word in MARKS]
    if not any(RELATIVES.intersection(words[j + 1 : j + 3]) for j in commas):
        yield from zip([0, *(j + 1 for j in commas)], commas, strict=False)


def test_the_verb_stands_second_or_last(german: list[list[str]]) -> None:
    second, last = finite_forms()
    one_word = set("Ich Er Sie Wir Es Leider Deshalb Dann Vielleicht Natürlich Warum Wann Wo Wer".split())
    counts = dict.fromkeys(("second", "after a clause", "last"), 0)
    for words in german:
        if words[0] in one_word:
            counts["second"] += 1
            assert words[1] in second, words
        for start, end in clauses(words):
            if words[start] in CONJUNCTIONS and end - start > 2:
                counts["last"] += 1
                assert words[end - 1] in last, words
                assert not AUXILIARIES.intersection(words[start : end - 1]), words
                if start == 0:
                    counts["after a clause"] += 1
                    assert words[end + 1] in second, words
    assert min(counts.values()) > 500, counts


def test_a_separable_prefix_closes_its_clause(german: list[list[str]]) -> None:
    stems = {"an": "rufe ruft rief riefen bot boten", "ein": "lädt lud luden", "auf": "räumt räumte wacht wachte"}
    stems |= {"ab": "holt holte", "mit": "nimmt nahm nahmen", "weg": "wirft warf warfen", "aus": "zieht zog zogen"}
    prefixes = {stem: prefix for prefix, forms in stems.items() for stem in forms.split()}
    seen = set()
    for words in german:
        if "und" in words:
            continue  # it may join two clauses, and no mark shows where the first one ends
        for start, end in clauses(words):
            for stem in prefixes.keys() & set(words[start:end]):
                seen.add(stem)
                assert words[end - 1] == prefixes[stem], words
        joined = [j for j, word in enumerate(words) if any(word == p + stem for stem, p in prefixes.items())]
        assert all(words[j + 1] in MARKS for j in joined), words
    assert len(seen) > 0.8 * len(prefixes)


def test_the_perfect_takes_sein_with_motion(german: list[list[str]]) -> None:
    sein, haben = {"bin", "ist", "sind"}, {"habe", "hat", "haben"}
    moved = set("gegangen gefahren gelaufen gereist geblieben verschwunden aufgestanden angekommen weggelaufen".split())
    done = set("gekauft gesehen geholfen gegessen geschlafen angerufen gegeben gelacht gewartet geschrieben".split())
    seen = set()
    for words in german:
        said = {word.lower() for word in words}
        if not said & {",", "und", "aber"}:
            for participles, right, wrong in ((moved, sein, haben), (done, haben, sein)):
                if said & participles:
                    seen |= said & participles
                    assert said & right and not said & wrong, words
    assert len(seen) > 0.8 * len(moved | done)


def test_kein_takes_the_place_of_nicht_and_ein(german: list[list[str]]) -> None:
    # "einen" can only be an object; neither "nicht einen Brief" nor "einen Brief nicht" is German for "not a letter".
    wrong = re.compile(r"\b(nicht einen|einen( [a-zäöüß]+){0,2} [A-ZÄÖÜ]\w+ nicht)\b")
    texts = [" ".join(words) for words in german]
    assert not [text for text in texts if wrong.search(text)]
    assert sum("keinen" in words for words in german) > 100


def test_person_and_number_agree(corpus: list[tuple[list[str], list[str], object]]) -> None:
    wrong = {("I", form) for form in ("is", "are", "has", "does", "wants")}
    wrong |= {(one, form) for one in ("he", "she", "it") for form in ("am", "are", "have", "do")}
    wrong |= {(one, form) for one in ("we", "they") for form in ("am", "is", "was", "has", "does", "wants")}
    wrong |= {("ich", form) for form in ("ist", "sind", "hat", "haben", "wird", "werden", "können")}
    wrong |= {("wir", form) for form in ("bin", "ist", "war", "hat", "habe", "wird", "kann", "will", "darf")}
    right = {("I", "am"), ("he", "is"), ("they", "were"), ("ich", "habe"), ("wir", "sind"), ("er", "ist")}
    seen = set()
    for source, target, _ in corpus:
        for words in (source, target):
            first = words[0] if words[0] == "I" else words[0].lower()
            seen.update(zip([first, *words[1:]], words[1:], strict=False))
    assert not seen & wrong
    assert right <= seen
