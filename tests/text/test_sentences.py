"""Sentences are found by the rules of a language, or of several if it is unknown, and no kept text is cut."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_text import SETTINGS

from nmt.data.filters import Filters
from nmt.data.links import Pair
from nmt.data.words import Span
from nmt.text import sentences as module
from nmt.text.corpus import PairCounts
from nmt.text.prepare import open_prepared, prepare
from nmt.text.sentences import AUTO, splitter

PARTS = ["two dogs.", "Dr. Smith went to New York!", "ein Garten x?", "x y", "a b c d.", "東京 x。", "(g) runs."]
BLANKS = "[ \t\n\r\x0b\x0c\x1c\x85\xa0\u2003\u2028\u3000]"
TEXT = st.lists(
    st.text(st.characters(categories=["C", "L", "N", "P", "S", "Z", "M"]), max_size=8)
    | st.from_regex(f"{BLANKS}{{1,2}}", fullmatch=True)
    | st.sampled_from([*PARTS, ".", "…", "1.", "e.g.", "?!", '"', "”", "。", "* "]),
    max_size=12,
).map("".join)
LANGUAGES = st.sampled_from(["en", "de", "zh-Hans", "PT_br", "xx", "hy", AUTO])


def parts(text: str, spans: Sequence[Span]) -> list[str]:
    return [text[start:stop] for start, stop in spans]


@given(text=TEXT, language=LANGUAGES)
def test_sentences_and_blanks_are_the_text(text: str, language: str) -> None:
    spans = splitter(language)(text, ())
    sentences = parts(text, spans)
    gaps = [text[stop:start] for (_, stop), (start, _) in pairwise(spans)]
    before, after = text[: spans[0][0]], text[spans[-1][1] :]
    assert "".join([before, *map("".join, zip(sentences, [*gaps, ""], strict=True)), after]) == text
    assert not "".join([before, *gaps, after]).strip()
    if len(sentences) > 1:
        assert all(part and part == part.strip() and len(part.splitlines()) == 1 for part in sentences)
    else:
        assert sentences == [text]
    for part in sentences[1:]:  # marks alone are not a sentence beside others
        assert has_letters(part) or not all(has_letters(line) for line in text.splitlines() if part in line)


def has_letters(text: str) -> bool:
    return any(map(str.isalpha, text))


@given(text=TEXT, language=LANGUAGES)
def test_lines_that_cannot_have_several_sentences_need_no_rules(text: str, language: str) -> None:
    with patch.object(module, "MARK", re.compile("")):  # all lines are split by the rules
        expected = splitter(language)(text, ())
    assert splitter(language)(text, ()) == expected


@given(text=TEXT, language=LANGUAGES, data=st.data())
def test_kept_text_is_not_cut(text: str, language: str, data: st.DataObject) -> None:
    text = "".join(text.splitlines())  # a line break always ends a sentence
    places = st.integers(0, len(text))
    kept = [(data.draw(places), data.draw(places)) for _ in range(3)]
    spans = splitter(language)(text, kept)
    for (_, stop), (start, _) in pairwise(spans):
        assert not any(first < stop and start < last for first, last in kept)


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("en", "Dr. Smith came at 5 p.m. It rained. See e.g. Fig. 3.", 3),
        ("en", "1. Open the door. Go in.", 2),
        ("de", "Am 3. Mai kam er. Gut.", 2),
        ("ja", "「行くよ。」と言った。「はい。」「いいえ！」", 3),
        ("ko", '"갔다."라고 말했다. “정말?” 그는 왔다.', 3),
        ("en", "***\nOne.", 2),
        (AUTO, "Am 3. Mai kam z. B. Dr. Weiß. Gut! Und Sie?", 3),
        (AUTO, "Mr. Smith came. Он пришел в 5 ч. вечера. Дождь.", 3),
        (AUTO, "the old dog sleeps . the cat runs . who ?", 3),
        (AUTO, "It costs approx. five pounds, e.g. here. OK.", 2),
        (AUTO, "「行くよ。」と言った。「はい。」「いいえ！」", 3),
        (AUTO, "वह आया। बारिश हुई।", 2),
    ],
)
def test_sentences_end_where_the_language_ends_them(language: str, text: str, expected: int) -> None:
    assert len(splitter(language)(text, ())) == expected


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("See https://x.org/a. B and go. Now.", "https://x.org/a. B"),
        ("Delete {n, plural, one {It. Yes!} other {They. So}}. Go on.", "{n, plural, one {It. Yes!} other {They. So}}"),
    ],
)
def test_kept_text_of_several_sentences_is_within_one(text: str, kept: str) -> None:
    start = text.index(kept)
    sentences = parts(text, splitter("en")(text, [(start, start + len(kept))]))
    assert len(sentences) == 2 and kept in sentences[0]


def test_sources_of_several_sentences_are_counted(tmp_path: Path) -> None:
    """Compare with a naive count; the filters drop a pair with several."""
    sources = [
        "Dogs run. Cats see.",
        "Dogs run.",
        "Run! Who? Me.",
        "Dr. No ran.",
        "Cats see.",
        "",
        f"{'Dogs run. ' * 9}",
    ]
    pairs = [Pair(source, "x y") for source in sources]
    for repeated, single in ((0, True), (9, False)):
        text = {"train": [*pairs, *[pairs[0]] * repeated], "valid": pairs}
        folder = tmp_path / str(repeated)
        settings = prepare(text, Filters(max_length=15), replace(SETTINGS, vocab_size=300), folder)
        for counts in (settings.pair_counts["train"], open_prepared(folder).pair_counts["train"]):
            kept = open_prepared(folder).corpora["train"].sources()
            assert counts.several == sum(
                len(re.findall(r"[a-z][.!?] [A-Z]", source)) > ("Dr." in source) for source in kept
            )
            assert counts.single_sentences == single
    assert not PairCounts(kept=6).single_sentences  # counts of an earlier version
