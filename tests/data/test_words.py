"""One count of words for links: text, pieces, links and gold links agree, whatever the text and the tokenizer are."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator

import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizer_kinds import KINDS, tokenizer_of

from nmt.data.words import (
    PieceWords,
    count_words,
    missing_words,
    overlapping,
    split_words,
    word_positions,
)
from nmt.text.tokenizer import BOS, EOS, PAD

ALPHABET = [*"abdeimnrstNewYork½¼ßx. \t", *"\u00a0\u3000\u2028\u2029\x85\r\n\v\f\x1f"]  # whitespace in Python
ALPHABET += [*"…ﷺﬁ´İ▁\u200b\u00ad\ufeff\u2060\x00\x01\x7f😀日本\u0301"]  # normalised, or removed
ALPHABET += [" ", " ", "  ", " New York ", "New York", " ¼ ", " \u200b ", " <2de> ", "...", " \xa0 "]
TEXTS = st.lists(st.sampled_from(ALPHABET), max_size=16).map("".join)


def naive_words(serialized: bytes, text: str) -> Iterator[list[int]]:
    """Yield the words of each piece; none for a piece without a visible letter.

    Each word is normalised alone, which gives the words of all letters in order. The pieces spell these letters in the
    same order.
    """
    model = sentencepiece.SentencePieceProcessor()
    model.LoadFromSerializedProto(serialized)
    text = text.replace("▁", "_")
    letters: list[int] = []
    for number, word in enumerate(word for word in re.split("[ \t]", text) if word):
        normal = [model.normalize(part) for part in word.split()]
        letters += [number] * len("".join(normal).replace("▁", ""))
    clean, pending = " ".join(text.split()), b""
    for piece, i in zip(model.encode(clean, out_type=str), model.encode(clean), strict=True):
        if not model.is_byte(i):
            count = len(piece.replace("▁", ""))
            yield letters[:count]
            del letters[:count]
            continue
        pending += bytes([int(piece[3:5], 16)])
        complete = pending.decode(errors="ignore")
        yield letters[:1]
        if complete:
            pending = b""
            del letters[:1]
    assert not letters


def spans(words: PieceWords) -> list[tuple[int, int]]:
    return [*zip(words, words.last, strict=True)]


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=50)
@given(text=TEXTS)
def test_pieces_of_any_text_belong_to_the_words_of_the_line(kind: str, text: str) -> None:
    if kind == "symbols":  # symbols keep marks after them apart, which a word that is normalised alone does not show
        text = text.replace("\u0301", "")
    tokenizer = tokenizer_of(kind)
    words, count = tokenizer.words(text), count_words(text)
    assert len(words) == len(tokenizer.encode(text))
    expected = [*naive_words(tokenizer.to_bytes(), text)]
    for (first, last), letters in zip(spans(words), expected, strict=True):
        assert not letters or (letters[0], letters[-1]) == (first, last)
    assert list(words) == sorted(words) and all(-1 <= word < count for word in words.last)
    covered = {word for first, last in spans(words) for word in range(first, last + 1)}
    assert set(missing_words(words, count)) == set(range(count)) - covered
    assert tokenizer.words_in_parts(text) == words


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=50)
@given(data=st.data())
def test_pieces_that_a_model_generates_belong_to_the_words_of_its_text(kind: str, data: st.DataObject) -> None:
    tokenizer = tokenizer_of(kind)
    pieces = range(EOS + 1, len(tokenizer))
    spaces = [i for i in pieces if tokenizer.pieces([i])[0] in ("▁", "<0x0A>", "<0xC2>", "<0xA0>")]
    ids = data.draw(st.lists(st.one_of(st.sampled_from(pieces), st.sampled_from(spaces or pieces)), max_size=12))
    words, text = tokenizer.decoded_words(ids), tokenizer.decode(ids)
    assert len(words) == len(ids) and text == " ".join(text.split())
    assert {word for first, last in spans(words) for word in range(first, last + 1)} - {-1} == set(
        range(count_words(text))
    )
    for number, word in enumerate(split_words(text)):
        own = [i for i, span in zip(ids, spans(words), strict=True) if span == (number, number)]
        shared = any(first <= number <= last and first < last for first, last in spans(words))
        assert shared or tokenizer.decode(own) == word
    assert tokenizer.decoded_words([BOS, *ids, EOS, PAD]) == [-1, *words, -1, -1]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a\tb  c ", ["a", "b", "c"]),
        ("\ufeffa\u00a0b\u3000c d\x85\u2028e\x0b\x0c\x1cf", ["\ufeffa\u00a0b\u3000c", "d\x85\u2028e\x0b\x0c\x1cf"]),
        (" \u00a0 x", ["\u00a0", "x"]),
        ("", []),
        (" \t ", []),
    ],
)
def test_only_space_and_tab_end_a_word(text: str, words: list[str]) -> None:
    assert split_words(text) == words and count_words(text) == len(words)


@given(text=TEXTS, ends=st.tuples(st.integers(0, 40), st.integers(0, 40)).map(sorted))
def test_overlapping_words_are_those_that_share_a_character(text: str, ends: list[int]) -> None:
    positions = word_positions(text)
    assert [text[start:stop] for start, stop in positions] == split_words(text)
    shared = [set(range(*position)) & set(range(*ends)) for position in positions]
    assert ends[0] == ends[1] or [*overlapping(positions, *ends)] == [row for row, some in enumerate(shared) if some]


def test_words_survive_pickling() -> None:
    words = PieceWords([0, 0, 2], [0, 1, 2])
    copy = pickle.loads(pickle.dumps(words))
    assert copy == words and copy.last == [0, 1, 2] and isinstance(copy, PieceWords)
    assert PieceWords([0, 1]).last == [0, 1]
