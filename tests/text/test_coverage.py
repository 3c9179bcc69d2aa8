"""Text that a tokenizer cannot read is counted and named; text that it can read is not."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizer_kinds import train_sentencepiece

from nmt.settings.build import build, plain
from nmt.text.coverage import Coverage
from nmt.text.tokenizer import Tokenizer

ENGLISH = [
    "two small dogs run through the deep white snow .",
    "a man in a blue shirt is standing on a high ladder .",
    "an old woman reads a long letter at the window .",
] * 5


@cache
def tokenizer(*, fallback: bool = True) -> Tokenizer:
    return Tokenizer.train(ENGLISH, vocab_size=330) if fallback else train_sentencepiece(ENGLISH, vocab_size=90)


def coverage(reader: Tokenizer, texts: list[str]) -> Coverage:
    counts = Coverage()
    counts.count(reader, texts, reader.encode_all(texts))
    return counts


@settings(max_examples=40)
@given(st.booleans(), st.lists(st.text(max_size=40), max_size=8))
def test_unknown_tokens_are_counted(fallback: bool, texts: list[str]) -> None:
    reader = tokenizer(fallback=fallback)
    counts = coverage(reader, texts)
    pieces = [piece for text in texts for piece in reader.pieces(reader.encode(text))]
    assert counts.tokens == len(pieces)
    assert counts.unknown == sum(piece == "<unk>" or piece.startswith("<0x") for piece in pieces)
    words = [word for text in texts for word in text.split()]
    assert counts.words == len(words)
    assert counts.unknown_words == sum(not reader.fallback.isdisjoint(reader.encode(word)) for word in words)
    assert bool(counts.example) == bool(counts.unknown) and any(counts.example in text for text in [*texts, ""])
    halves = coverage(reader, texts[:4])
    halves.add(coverage(reader, texts[4:]))
    assert halves == counts and build(Coverage, plain(counts)) == counts


@pytest.mark.parametrize("fallback", [True, False])
@pytest.mark.parametrize(
    ("texts", "example"),
    [
        (ENGLISH, None),
        ([], None),
        (["", " "], None),
        (["Müller"], None),
        ([*ENGLISH, "a man in Москва ."], None),
        (["an old man Чехов"] * 30, "Чехов"),
        (["你好"], None),
        (["你好"] * 3, "你好"),
        ([line.upper() for line in ENGLISH], "TWO"),
        ([line.replace("e", "ø") for line in ENGLISH], "thø"),
    ],
)
def test_unreadable_texts_are_named(texts: list[str], example: str | None, fallback: bool) -> None:
    problem = coverage(tokenizer(fallback=fallback), texts).problem()
    assert problem is None if example is None else problem is not None and repr(example) in problem


def test_unknown_words_of_a_model_of_words_are_counted() -> None:
    words = train_sentencepiece(["cat dog goat toad god"] * 9, vocab_size=9, model_type="word")
    assert coverage(words, ["cat dog goat"] * 40).problem() is None
    assert coverage(words, ["tac tag dot"] * 40).problem() is not None
