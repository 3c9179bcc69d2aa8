"""The advice about the size of a vocabulary ends in success, whatever the text."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sharded import SETTINGS

from nmt.data.pair import Pair
from nmt.errors import UserError
from nmt.text.prepare import train_tokenizers


def text(generator: random.Random, letters: int, words: int) -> str:
    alphabet = [chr(ord("一") + number) for number in range(letters)]
    return " ".join("".join(generator.choices(alphabet, k=generator.randrange(1, 7))) for _ in range(words))


@settings(deadline=None, max_examples=40)
@given(
    st.integers(0, 10**6),
    st.sampled_from(["bpe", "unigram"]),
    st.booleans(),
    st.tuples(st.integers(1, 900), st.integers(1, 900)),
    st.sampled_from([5, 300, 600, 2000]),
)
def test_following_the_advice_ends_in_success(
    seed: int, kind: Literal["bpe", "unigram"], joint: bool, letters: tuple[int, int], size: int
) -> None:
    generator = random.Random(seed)
    pairs = [Pair(*(text(generator, count, 9) for count in letters)) for _ in range(generator.randrange(1, 40))]
    chosen = replace(SETTINGS, kind=kind, joint=joint, vocab_size=size)
    try:
        train_tokenizers(chosen, pairs)
    except UserError as error:
        advice = dict(re.findall(r"; set tokenizer\.(\w+)=(\d+)$", "\n".join(error.problems), re.MULTILINE))
        assert len(advice) == len(error.problems)
        for tokenizer in train_tokenizers(replace(chosen, **{key: int(value) for key, value in advice.items()}), pairs):
            assert joint or len(tokenizer) in {int(value) for value in advice.values()} | {size}


def test_both_sides_are_named_in_one_message() -> None:
    generator = random.Random(3)
    pairs = [Pair("a small dog", text(generator, 900, 9)) for _ in range(40)]
    with pytest.raises(UserError) as caught:
        train_tokenizers(replace(SETTINGS, joint=False, vocab_size=400), pairs)
    source, target = caught.value.problems
    many = r"tokenizer\.vocab_size=400: the source text yields at most (\d+) pieces"
    assert re.fullmatch(rf"{many}; set tokenizer\.source_vocab_size=\1", source)
    assert target.startswith("tokenizer.vocab_size=400: the target text needs at least ")
