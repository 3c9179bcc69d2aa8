"""One count of words for links: text, pieces, links and gold links agree, whatever the text and the tokenizer are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain

import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizer_kinds import KINDS, tokenizer_of

from nmt.data.words import WORD, count_words, overlaps, split_words, words_of
from nmt.text.specials import EOS

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


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=25)
@given(text=TEXTS)
def test_pieces_of_any_text_belong_to_the_words_of_the_line(kind: str, text: str) -> None:
    if kind == "symbols":  # symbols keep marks after them apart, which a word that is normalised alone does not show
        text = text.replace("\u0301", "")
    tokenizer = tokenizer_of(kind)
    spans = tokenizer.spans(text)
    starts = [start for start, _ in spans]
    assert len(spans) == len(tokenizer.encode(text)) and starts == sorted(starts)
    expected = [*naive_words(tokenizer.to_bytes(), text)]
    for words, letters in zip(words_of(text, spans), expected, strict=True):
        assert not letters or (letters[0], letters[-1]) == (words[0], words[-1])
        assert words or not any(expected)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=25)
@given(data=st.data())
def test_pieces_that_a_model_generates_belong_to_the_words_of_its_text(kind: str, data: st.DataObject) -> None:
    tokenizer = tokenizer_of(kind)
    pieces = range(EOS + 1, len(tokenizer))
    spaces = [i for i in pieces if tokenizer.pieces([i])[0] in ("▁", "<0x0A>", "<0xC2>", "<0xA0>")]
    ids = data.draw(st.lists(st.one_of(st.sampled_from(pieces), st.sampled_from(spaces or pieces)), max_size=12))
    spans, text = tokenizer.decoded_spans(ids), tokenizer.decode(ids)
    spelled = b"".join(tokenizer.spellings[i] for i in ids)
    assert text == " ".join(spelled.decode(errors="ignore").split())  # without half characters
    words = words_of(text, spans)
    assert len(words) == len(ids) and text == " ".join(text.split())
    assert {*chain(*words)} == {*range(count_words(text))}
    for number, word in enumerate(split_words(text)):
        own = [i for i, of_piece in zip(ids, words, strict=True) if [*of_piece] == [number]]
        shared = any(number in of_piece and len(of_piece) > 1 for of_piece in words)
        assert shared or tokenizer.decode(own) == word
    covered = {at for span in spans for at in range(*span)}
    assert all(at in covered for at, letter in enumerate(text) if letter != " ")


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
    positions = [match.span() for match in WORD.finditer(text)]
    assert [text[start:stop] for start, stop in positions] == split_words(text)
    shared = [set(range(*position)) & set(range(*ends)) for position in positions]
    assert ends[0] == ends[1] or [*overlaps(positions, [ends])[0]] == [row for row, some in enumerate(shared) if some]
