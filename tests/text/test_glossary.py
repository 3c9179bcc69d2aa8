"""Glossary files and their matches in a line, compared with a search through all parts of the line."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from builders import refusal
from hypothesis import given
from hypothesis import strategies as st

from nmt.text.glossary import Glossary, read_glossary

TERMS = {
    "dog": "Hund",
    "hot dog": "Würstchen",
    "New York": "",
    "New York Times": "NYT",
    "Hund*": "dog",
    "U.S.": "USA",
    "北京": "Peking",
    "red hat*": "roter Hut",
    "W\u00fcrstchen": "sausage",
}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("a dog , dogs and a hot dog.", [("dog", "Hund"), ("hot dog", "Würstchen")]),
        ("Dog? Dog, Dog", [("Dog", "Hund"), ("Dog", "Hund")]),
        ("the New York Times of New York", [("New York Times", "NYT"), ("New York", "New York")]),
        ("Hunde, Hundes, Hund; Schäferhund", [("Hunde", "dog"), ("Hundes", "dog"), ("Hund", "dog")]),
        ("the U.S.", [("U.S.", "USA")]),
        ("我爱北京市", [("北京", "Peking")]),
        ("red hats and a red hat", [("red hats", "roter Hut"), ("red hat", "roter Hut")]),
        ("hot\tdog", [("hot\tdog", "Würstchen")]),
        ("dog_ dog\u0301 2dog", []),
        ("dog\u200cها", []),  # U+200C joins an ending, as in Persian
        ("dog\u200c \u200ddog", [("dog", "Hund")]),
        ("ein Wu\u0308rstchen", [("Wu\u0308rstchen", "sausage")]),
        ('"Dog! (Dog) the "Dog"', [("Dog", "Hund"), ("Dog", "Hund")]),
        ("", []),
    ],
)
def test_terms_are_matched(line: str, expected: list[tuple[str, str]]) -> None:
    assert [(line[match.start : match.stop], match.target) for match in Glossary(TERMS).matches(line)] == expected


@pytest.mark.parametrize(
    ("term", "line"),
    [
        ("Mother's Day", "on Mother’s Day"),
        ("м’ята", "та мʼята"),
        ('צה"ל', "כתב צה״ל"),
        ("vis-à-vis", "seul vis‑à‑vis"),
        ("ինչպես", "դու ինչպե՞ս ես"),
        ("դու", "ես և դու՞ ես"),
        ("كتاب", "هذا كتـــاب"),
        ("ırmak", "Irmak akar."),
        ("insan", "Gel! İnsan geldi."),
        ("σπίτι", "Πού; Σπίτι."),
        ("տուն", "Այո։ Տուն։"),
    ],
)
def test_terms_match_as_people_write_them(term: str, line: str) -> None:
    """With other apostrophes and hyphens, and with marks of a question within the word, as in Armenian."""
    assert len([*Glossary({term: "x"}).matches(line)]) == 1
    assert not [*Glossary({f"{term}a": "x"}).matches(line)]


@given(
    st.lists(st.sampled_from("a b ab A B aB . *".split()), max_size=12),
    st.dictionaries(
        st.lists(st.sampled_from("a b ab B".split()), min_size=1, max_size=3).map(" ".join),
        st.just("x"),
        max_size=5,
    ),
)
def test_matches_are_the_longest_from_left_to_right(words: list[str], terms: dict[str, str]) -> None:
    line = " ".join(words)
    expected = []
    at = 0
    while at < len(words):
        starts = [words[at]]
        if re.search(r"(^|[.])[ *]*$", " ".join(words[:at])):
            starts.append(words[at][0].lower() + words[at][1:])
        sizes = {term: len(term.split()) for term in terms}
        fits = [
            [size for term, size in sizes.items() if [start, *words[at + 1 :]][:size] == term.split()]
            for start in starts
        ]
        length = max(next(filter(None, fits), [0]))
        expected += [(at, at + length)] * (length > 0)
        at += max(length, 1)
    spans = [match.span() for match in re.finditer(r"\S+", line)]
    matches = [(match.start, match.stop) for match in Glossary(terms).matches(line)]
    assert matches == [(spans[first][0], spans[stop - 1][1]) for first, stop in expected]


def test_capital_is_named_only_at_the_start_of_a_sentence() -> None:
    matches = Glossary({"big dog": "Hund", "Cat": "Katze", "x": ""}).matches("Big dog. Cat . X")
    assert [match.capital for match in matches] == [True, False, False]


def test_file_is_read_once(tmp_path: Path) -> None:
    file = tmp_path / "terms.tsv"
    file.write_text("hot  dog\t ein  Würstchen \n\nNew York\nMax\t\n", "utf-8")
    glossary = read_glossary(file)
    assert glossary.targets == {"hot dog": "ein Würstchen", "New York": "", "Max": ""}
    assert read_glossary(file) is glossary
    file.write_text("dog\tHund\n", "utf-8")
    os.utime(file, ns=(1, 1))
    assert read_glossary(file).targets == {"dog": "Hund"}


@pytest.mark.parametrize("line", ["\tx", "*\tx", "dog\ta\tb", "New - York", "u\u0308b*\tx"])
def test_wrong_lines_are_refused(line: str, tmp_path: Path) -> None:
    """A term without letters, three columns, and a second target for a term."""
    file = tmp_path / "terms.tsv"
    file.write_text(f"dog\tHund\nNew-York\tNY\n\u00fcb *\ty\n{line}\n", "utf-8")
    assert refusal(read_glossary, file).startswith(f"{file}:4: {line!r}: ")
