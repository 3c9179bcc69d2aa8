"""Glossary terms and placeholders: each is in the translation, whatever the attention, search, engine and batch."""

from __future__ import annotations

import html
import random
import re
from collections import Counter
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from builders import refusal
from hypothesis import assume, given
from hypothesis import strategies as st
from inference.random_translators import aligned, link_weights, random_translator, searches
from text.test_placeholders import KINDS as KEPT_KINDS
from text.test_placeholders import NUMBER_KINDS

from nmt.data.words import split_words, words_of
from nmt.inference.kept import kept_spans
from nmt.inference.protection import complete, protect
from nmt.inference.terms import Placing, Required, apply_edits
from nmt.inference.translation import Translation, alignment_lines
from nmt.inference.translator import Translator
from nmt.search.options import SearchOptions
from nmt.text.glossary import Glossary
from nmt.text.placeholders import KeptText

KINDS = ["spm-default", "bpe-nmt_nfkc", "characters", "words"]
TERMS = {"dogs": "Hunde", "New York": "", "two": "zwei kleine", "g*": "Gartenzaun", "a b": "ab", "東京": "京"}
LINES = [
    "two dogs",
    "in New York , two x",
    "ein Garten g",
    "a b c d e f g",
    "Two dogs, two (dogs)!",
    "mein 東京 x",
    "x y",
]
PLACEHOLDERS = [
    "{name}",
    "%s",
    "http://a.b/c?d=1&e",
    "www.x.org",
    "me@x.org",
    "`u v`",
    "3,500",
    "+49 30 1234",
    "%(n)d",
    "${x}",
    "&nbsp;",
    "😀",
    "{n, plural, one {a} other {two dogs}}",
]
BEAM = SearchOptions(beam_size=4, n_best=4, max_length=7, keep_numbers=True)
KEPT = KeptText(placeholders=True, numbers=True, elements=False)
SEARCHES = searches(BEAM)


def required_words(line: str) -> Counter[str]:
    """Return how often each target is required, found without the code under test."""
    counts: Counter[str] = Counter()
    for pattern, target in [
        (r"\bdogs\b", "Hunde"),
        (r"\bNew York\b", "New York"),
        (r"\b[Tt]wo\b", "zwei kleine"),
        (r"\bg\w*", "Gartenzaun"),
        (r"\ba b\b", "ab"),
        ("東京", "京"),
    ]:
        counts[target] = len(re.findall(pattern, line))
    return +counts


@pytest.mark.parametrize(
    ("search", "kind"), [*((search, "ours") for search in SEARCHES), *(("beam", kind) for kind in KINDS)]
)
def test_every_term_is_written(search: str, kind: str) -> None:
    check(random_translator(kind=kind), replace(SEARCHES[search], terms=TERMS))


def test_terms_of_a_call_are_those_of_a_file_and_precede_them(tmp_path: Path) -> None:
    (tmp_path / "terms.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in TERMS.items()), "utf-8")
    translator, other = random_translator(), {"two": "drei", "x": "X Y"}
    for terms in ({}, other):
        texts = translator.texts(LINES, replace(BEAM, glossary=str(tmp_path / "terms.tsv"), terms=terms))
        assert texts == translator.texts(LINES, replace(BEAM, terms={**TERMS, **terms}))
    assert "drei" in texts[0] and "X Y" in texts[-1]
    assert refusal(translator.texts, LINES, replace(BEAM, terms={"*": "x"})).startswith("terms: ('*', 'x'): ")


@pytest.mark.parametrize("search", SEARCHES)
def test_a_term_that_the_translation_has_changes_nothing(search: str) -> None:
    """Neither its text nor its links, wherever the target word stands."""
    translator = random_translator("memory")
    options = replace(SEARCHES[search], n_best=1, mbr=None, keep_numbers=False, keep_placeholders=False)
    for line, before in zip(LINES, translator.translate(LINES, options), strict=True):
        source = split_words(line)[-1]
        for word in {*split_words(before.text)}:
            [best] = translator.translate([line], replace(options, terms={source: word}))
            if any(map(str.isalnum, word)) and source.isalnum():
                assert (best.text, best.tokens) == (before.text, before.tokens)
                assert alignment_lines([best]) == alignment_lines([before])


def check(translator: Translator, options: SearchOptions) -> None:
    """Check that terms are written, and that a line without a term is as before."""
    plain = translator.translate(LINES, replace(options, terms=None))
    for line, before, translation in zip(LINES, plain, translator.translate(LINES, options), strict=True):
        counts = required_words(line)
        for best in translation.n_best:
            assert not best.lost and best.text == " ".join(split_words(best.text))
            assert all(best.text.lower().count(text.lower()) >= count for text, count in counts.items())
            check_words(best, line)
        if not counts:
            assert [best.text for best in translation.n_best] == [best.text for best in before.n_best]


@pytest.mark.parametrize("markup", [False, True])
@pytest.mark.parametrize("search", SEARCHES)
def test_kept_text_of_every_kind_comes_out_once(search: str, markup: bool) -> None:
    """At random places, in lines of several sentences, alone and in batches, in plain text and in HTML."""
    translator, rng = random_translator(kind="spm-default"), random.Random(5)
    lines = list[str]()
    every = [text for kind in KEPT_KINDS.values() for text in kind if not text.startswith("--")] + NUMBER_KINDS
    rng.shuffle(every)
    for row in range(0, len(every) - 2, 2):
        words = "two dogs. A small dog , x y! Dr. Smith".split()[: rng.randrange(2, 9)]
        for text in every[row : row + 2]:
            words.insert(rng.randrange(len(words) + 1), text)
        lines.append(" ".join(words))
    options = replace(SEARCHES[search], n_best=1, sentences="en", terms={"two": "zwei", "n": "x", "x": "y"})
    sources = [html.escape(line, quote=False) for line in lines] if markup else lines
    translations = translator.translate(sources, options, markup=markup)
    for line, row in zip(lines, translations, strict=True):
        text = html.unescape(row.text) if markup else row.text
        assert not row.lost, (line, row.text)
        expected = [match[0] for match in KEPT.matches(line)]
        assert len(expected) == 2 and all(text.count(it) >= expected.count(it) for it in expected), (line, text)
        found = [match[0] for match in KEPT.matches(text)]
        assert Counter(found) >= Counter(expected), (line, text)
    alone = [translator.texts([line], options, markup=markup)[0] for line in sources[:10]]
    assert alone == [translation.text for translation in translations[:10]]


def check_words(best: Translation, line: str) -> None:
    """Check that the words of all tokens are in order, and that links join words that exist."""
    assert best.alignment is not None and len(best.alignment) == len(best.tokens) == len(best.token_log_probs)
    assert best.source == line
    assert max(chain(*words_of(best.text, best.spans)), default=-1) == len(split_words(best.text)) - 1
    numbers = [word for word in best.target_words if word >= 0]
    assert numbers == sorted(numbers)
    assert max(chain(*words_of(line, best.source_spans)), default=-1) == len(split_words(line)) - 1
    for link in alignment_lines([replace(best, n_best=[])])[0].split():
        i, j = map(int, link.split("-"))
        split_words(line)[i], split_words(best.text)[j]


PIECES = st.sampled_from("a dog runs , today . Zoë".split())


@given(
    words=st.lists(PIECES, min_size=1, max_size=6),
    placeholders=st.lists(st.sampled_from(PLACEHOLDERS), min_size=1, max_size=3),
    output=st.lists(st.sampled_from("ein Hund 1 2 1, läuft heute .".split()), max_size=7),
    seed=st.integers(0, 100),
)
def test_each_placeholder_is_written_once(
    words: list[str], placeholders: list[str], output: list[str], seed: int
) -> None:
    """Even for arbitrary translations and weights; the rest of the line is what the model reads and writes."""
    rng = np.random.default_rng(seed)
    line = [*words]
    for placeholder in placeholders:
        line.insert(rng.integers(len(line) + 1), placeholder)
    protected = protect(text := " ".join(line), kept_spans(text, KEPT, None), None, letters=True)
    assert any(map(str.isalpha, "".join(words))) == bool(protected.text)
    assume(protected.text)
    # Marks between placeholders stay with them.
    assert not Counter(split_words(protected.text)) - Counter(words)
    assert re.findall(r"\w+", protected.text) == re.findall(r"\w+", " ".join(words))
    count = len(split_words(protected.text))
    weights = rng.random((len(output), count)) * rng.integers(2, size=(len(output), 1))
    best = aligned(protected.text, " ".join(output), weights)
    written = complete(best, protected, " ".join(line))
    rest = written.text
    for placeholder in placeholders:
        assert written.text.count(placeholder) == placeholders.count(placeholder)
        rest = rest.replace(placeholder, " ")
    assert re.findall(r"\w+", rest) == re.findall(r"\w+", " ".join(output))
    assert written.text == written.text.strip()
    check_words(written, " ".join(line))
    order = [it for it in split_words(written.text) if it in placeholders]
    if not output:  # nothing tells them apart
        assert order == [it for it in line if it in placeholders and " " not in it]


@pytest.mark.parametrize(
    ("source", "read", "target", "links", "expected"),
    [
        ("a dog {x} runs", "a dog runs", "ein Hund läuft", "0-0 1-1 2-2", "ein Hund {x} läuft"),
        ("{x} a dog", "a dog", "ein Hund", "0-0 1-1", "{x} ein Hund"),
        ("a dog runs {x} .", "a dog runs .", "ein Hund läuft .", "0-0 1-1 2-2 3-3", "ein Hund läuft {x} ."),
        ("a dog runs. 😀", "a dog runs.", "ein Hund läuft.", "0-0 1-1 2-2", "ein Hund läuft. 😀"),
        ("a dog runs {x}.", "a dog runs.", "ein Hund läuft.", "0-0 1-1 2-2", "ein Hund läuft {x}."),
        ("a dog, {x}, runs", "a dog, runs", "ein Hund, läuft", "0-0 1-1 2-2", "ein Hund, {x}, läuft"),
        # Words may change their order, and placeholders with them.
        ("a {x} dog {y} runs", "a dog runs", "läuft Hund ein", "2-0 1-1 0-2", "läuft Hund {y} ein {x}"),
        # Neighbours keep their order and the marks between them.
        ("a {x}: {y} dog", "a dog", "ein Hund", "0-0 1-1", "ein {x}: {y} Hund"),
        ("wait (%d/%d) dog", "wait dog", "ein Hund", "0-0 1-1", "ein (%d/%d) Hund"),
        # A placeholder that touches a word touches its translation.
        ("two file%s now", "two file now", "zwei Datei jetzt", "0-0 1-1 2-2", "zwei Datei%s jetzt"),
        ("wait %dms now", "wait ms now", "warte Sekunden jetzt", "0-0 1-1 2-2", "warte %dSekunden jetzt"),
        ("a %d-year now", "a year now", "ein Jahr jetzt", "0-0 1-1 2-2", "ein %d-Jahr jetzt"),
        ("©Zoë now", "Zoë now", "jetzt Zoë", "0-1 1-0", "jetzt ©Zoë"),
        ("a{x}b", "a b", "ein Hund", "0-0 1-1", "ein{x} Hund"),
        ("京{x}都", "京 都", "a b", "0-0 1-1", "a {x} b"),
        # A line without letters is not translated.
        ("--- 12.05.2020 ---", "", "", "", "--- 12.05.2020 ---"),
    ],
)
def test_placeholders_are_taken_out_and_put_back(
    source: str, read: str, target: str, links: str, expected: str
) -> None:
    protected = protect(
        source, kept_spans(source, KeptText(placeholders=True, numbers=False, elements=False), None), None, letters=True
    )
    assert protected.text == read
    if read:
        assert complete(aligned(read, target, link_weights(links)), protected, source).text == expected


def test_lost_texts_are_counted_on_both_sides() -> None:
    """They are seen whoever lost them: here, a search with prefixes, which keeps no text."""
    translator = random_translator()
    lines = ["two {x} dogs {x}", "two dogs", "😀 x"]
    for translation, lost in zip(
        translator.translate(lines, prefixes=["", "", ""]), (["{x}"], (), ["😀"]), strict=True
    ):
        assert [*translation.lost] == [*lost]
    with pytest.warns(UserWarning) as caught:
        Translator(translator.loaded_model).translate(lines, prefixes=["", "", ""])
    assert [str(it.message)[:7] for it in caught if "{x}" in str(it.message) and " 1: " in str(it.message)] == [
        "2 lines"
    ]
    translations = translator.translate(lines, replace(BEAM, terms=TERMS))
    assert not any(translation.lost for translation in translations)
    lines = ["a <b>{x}</b> two dogs", "<code>x</code> dogs", "<kbd>two g</kbd> dogs"]
    assert not any(best.lost for best in translator.translate(lines, replace(BEAM, terms=TERMS), markup=True))


def test_kept_text_may_hold_characters_that_the_model_does_not_read() -> None:
    trained = random_translator().trained
    trained.config["data"]["remove_invisible"] = "all"
    assert "{x}" in Translator(trained).texts(["two {\u200bx} dogs"], SearchOptions(max_length=7))[0]


@pytest.mark.parametrize(
    ("source", "target", "links", "terms", "expected", "new_links"),
    [
        # The aligned word is replaced, without its punctuation.
        ("the dog.", "der (Hund).", "0-0 1-1", {"dog": "Köter"}, "der (Köter).", "0-0 1-1"),
        # Text that is present stays, and the occurrence with the larger weight is used.
        ("dog dogs", "hund Hund", "0-1 1-0", {"dog": "Hund"}, "hund Hund", "0-1 1-0"),
        # Vowel signs and accents belong to the word: one that goes on with them is another word.
        ("the dog.", "वह कुत्ती।", "0-0 1-1", {"dog": "मछली"}, "वह मछली।", "0-0 1-1"),
        ("a café now", "un cafe\u0301, ici", "0-0 1-1 2-2", {"café": "bar"}, "un bar, ici", "0-0 1-1 2-2"),
        # Several aligned words become one, and one becomes several.
        ("hot dog now", "heißer Hund jetzt", "0-0 1-1 2-2", {"hot dog": "Wurst"}, "Wurst jetzt", "0-0 2-1"),
        (
            "a dog now",
            "ein Hund jetzt",
            "0-0 1-1 2-2",
            {"dog": "kleiner Hund"},
            "ein kleiner Hund jetzt",
            "0-0 1-1 1-2 2-3",
        ),
        # Without aligned words, the neighbours decide; a full stop stays at the end.
        ("a dog runs", "ein läuft", "0-0 2-1", {"dog": "Hund"}, "ein Hund läuft", "0-0 1-1 2-2"),
        ("a dog runs", "läuft ein.", "0-1 2-0", {"dog": "Hund"}, "läuft ein Hund.", "0-1 1-2 2-0"),
        ("dog", "", "", {"dog": "Hund"}, "Hund", "0-0"),
        # Two terms without aligned words keep their order.
        ("dog and cat", "und", "1-0", {"dog": "Hund", "cat": "Katze"}, "Hund und Katze", "0-0 1-1 2-2"),
        # A sentence-initial capital carries over at the start only.
        ("Dog runs", "Hund läuft", "0-0 1-1", {"dog": "köter"}, "Köter läuft", "0-0 1-1"),
        ("Dog runs", "läuft Hund", "0-1 1-0", {"dog": "köter"}, "läuft köter", "0-1 1-0"),
        # The longer term is not broken by the shorter one.
        ("York , New York", "New York", "0-1 2-0 3-1", {"York": "", "New York": ""}, "York New York", "0-0 0-2 2-1"),
    ],
)
def test_terms_are_written_where_the_alignment_says(
    source: str, target: str, links: str, terms: dict[str, str], expected: str, new_links: str
) -> None:
    translation = aligned(source, target, link_weights(links))
    written = complete(translation, protect(source, [], Glossary(terms), letters=False), source)
    assert written.text == expected and written.confidence == translation.confidence
    assert alignment_lines([written]) == [new_links]


def test_a_number_within_a_term_belongs_to_it() -> None:
    glossary = Glossary({"iPhone 15": "Handy", "1": "eins"})
    line = "15 times 1 iPhone 15 for 1,250 {x}"
    protected = protect(line, kept_spans(line, KEPT, glossary), glossary, letters=True)
    assert sorted(item.text for item in protected.required) == ["Handy", "eins"]
    assert [part for kept in protected.kept for part, _ in kept.parts] == ["15", "1,250", " {x}"]
    terms = Glossary({"new york": "York", "x": "y"})
    assert not protect("new {x} york", kept_spans("new {x} york", KEPT, terms), terms, letters=True).required


def test_scripts_without_spaces_are_changed_by_token() -> None:
    source, target = "我爱北京", "私は東京が好き"
    translation = replace(
        aligned("", target, np.zeros((1, 0))),
        source=source,
        tokens=["▁私", "は", "東京", "が", "好き", "</s>"],
        source_spans=[(0, 1), (1, 2), (2, 4)],
        spans=[(0, 1), (1, 2), (2, 4), (4, 5), (5, 7)],
        alignment=np.array([[1, 0, 0, 0], [1, 0, 0, 0], [0, 0, 1, 0], [0, 1, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1.0]]),
        token_log_probs=[0.0] * 6,
    )
    for term, expected in (("北京", "私は北京が好き"), ("好き", target)):
        placing = Placing(translation)
        placing.write([Required(2, 4, term)])
        assert apply_edits(translation, placing.edits).text == expected
