"""The generated German follows the rules of German: agreement, case and verb position."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from nmt.grammar.lexicon import all_verbs

MARKS = {",", ".", "?"}
CONJUNCTIONS = set("dass ob weil obwohl als wenn bevor bis während sobald".split())
RELATIVES = set("der die das den dem denen".split())
AUXILIARIES = set(
    "bin ist sind war waren habe hat haben werde wird werden kann können konnte konnten muss müssen sollte sollten "
    "darf dürfen will wollen wollte wollten".split()
)


@pytest.fixture(scope="module")
def german(corpus: list[tuple[list[str], list[str], object]]) -> list[list[str]]:
    """Return German sentences; an initial conjunction is lower-cased, since it is never another word."""
    sentences = [words for _, words, _ in corpus]
    return [[words[0].lower(), *words[1:]] if words[0].lower() in CONJUNCTIONS else words for words in sentences]


# The nouns of a row take only these articles, and together they take all of them.
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
# Ending of an adjective between this article and this noun.
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
            # After a comma (and a preposition), "der" may be a relative pronoun before a bare plural.
            if word in seen and words[j - 1] in every and "," not in words[max(0, j - 3) : j - 1]:
                seen[word].add(words[j - 1])
    for articles, names in table.items():
        assert all(seen[name] <= set(articles.split()) for name in names.split()), seen
        assert set().union(*(seen[name] for name in names.split())) == set(articles.split()), names


def test_adjective_endings_agree_with_the_article(german: list[list[str]]) -> None:
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
    assert all(articles and articles <= cases[preposition] for preposition, articles in seen.items()), seen
    assert seen["mit"] >= {"dem", "der", "den", "einem", "einer"} and seen["für"] >= {"den", "die", "das"}


def finite_forms() -> tuple[set[str], set[str]]:
    """Return finite verbs in second position (without a separable prefix) and in last position."""
    forms = [(verb.prefix, form) for verb in all_verbs() for form in verb.present_forms + verb.past_forms]
    return {form for _, form in forms} | AUXILIARIES, {prefix + form for prefix, form in forms} | AUXILIARIES


def clauses(words: list[str]) -> Iterator[tuple[int, int]]:
    """Yield start and end of each part between commas, if no relative clause interrupts it."""
    commas = [j for j, word in enumerate(words) if word in MARKS]
    if not any(RELATIVES.intersection(words[j + 1 : j + 3]) for j in commas):
        yield from zip([0, *(j + 1 for j in commas)], commas, strict=False)


def test_finite_verb_is_second_or_last(german: list[list[str]]) -> None:
    second, last = finite_forms()
    single_words = set("Ich Er Sie Wir Es Leider Deshalb Dann Vielleicht Natürlich Warum Wann Wo Wer".split())
    counts = dict.fromkeys(("second", "after a clause", "last"), 0)
    for words in german:
        if words[0] in single_words:
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
