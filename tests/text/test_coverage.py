"""Text that a tokenizer cannot read is counted and named; text that it can read is not."""

from __future__ import annotations

import random
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizer_kinds import train_sentencepiece

from nmt.settings.build import build, plain
from nmt.text.coverage import Coverage, unknown_letters
from nmt.text.tokenizer import Tokenizer

ENGLISH = [
    "two small dogs run through the deep white snow .",
    "a man in a blue shirt is standing on a high ladder .",
    "the young children play with a red ball in the garden .",
    "an old woman reads a long letter at the window .",
] * 5
OTHER_SCRIPTS = ["аяж", "αωσ", "ազե", "אבת", "بيت", "कहग", "กขฮ", "აბჰ", "가힣", "あん", "一龥", "ᎠᏴ"]


@cache
def tokenizer(*, fallback: bool = True) -> Tokenizer:
    return Tokenizer.train(ENGLISH, vocab_size=340) if fallback else train_sentencepiece(ENGLISH, vocab_size=100)


def coverage(reader: Tokenizer, texts: list[str]) -> Coverage:
    counts = Coverage()
    counts.count(reader, texts, reader.encode_all(texts))
    return counts


@settings(max_examples=40)
@given(st.sampled_from(OTHER_SCRIPTS), st.booleans(), st.integers(0, 10**6), st.integers(1, 30))
def test_text_in_another_script_is_named(letters: str, fallback: bool, seed: int, lines: int) -> None:
    generator = random.Random(seed)
    texts = [" ".join("".join(generator.choices(letters, k=5)) for _ in range(12)) for _ in range(lines)]
    problem = coverage(tokenizer(fallback=fallback), texts).problem("choose another model")
    assert problem is not None and problem.endswith("; choose another model")
    assert any(repr(word) in problem for word in texts[0].split())


@settings(max_examples=40)
@given(st.booleans(), st.lists(st.text(max_size=40), max_size=8))
def test_unknown_tokens_are_counted(fallback: bool, texts: list[str]) -> None:
    reader = tokenizer(fallback=fallback)
    counts = coverage(reader, texts)
    pieces = [piece for text in texts for piece in reader.pieces(reader.encode(text))]
    assert counts.tokens == len(pieces)
    assert counts.unknown == sum(piece == "<unk>" or piece.startswith("<0x") for piece in pieces)
    assert counts.words == sum(len(text.split()) for text in texts)
    assert counts.unknown_letters == sum(unknown_letters(reader, word) for text in texts for word in text.split())
    halves = coverage(reader, texts[:4])
    halves.add(coverage(reader, texts[4:]))
    assert halves == counts and build(Coverage, plain(counts)) == counts


@pytest.mark.parametrize("fallback", [True, False])
@pytest.mark.parametrize(
    ("texts", "unreadable"),
    [
        (ENGLISH, False),
        ([], False),
        (["", " "], False),
        (["é"], False),
        (["Müller"], False),
        (["😀"], False),
        ([f"{line} 😀👩‍👩‍👧❤️" for line in ENGLISH], False),
        ([line.replace(".", "…”") for line in ENGLISH], False),
        ([*ENGLISH, "a man in Москва ."], False),
        (["a man called Чехов"], False),
        (["Чехов"], True),
        (["你好"], True),
        ([line.upper() for line in ENGLISH], True),
        ([line.replace("e", "ø") for line in ENGLISH], True),
    ],
)
def test_warnings(texts: list[str], unreadable: bool, fallback: bool) -> None:
    assert coverage(tokenizer(fallback=fallback), texts).is_unreadable is unreadable


def test_unknown_words_of_a_model_of_words_are_counted() -> None:
    words = train_sentencepiece(["cat dog goat toad god"] * 9, vocab_size=9, model_type="word")
    assert coverage(words, ["cat dog goat"] * 40).problem("advice") is None
    assert coverage(words, ["tac tag dot"] * 40).is_unreadable
