"""A translation begins with the given text, also if that ends within a word, and its score is the model's."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
from builders import forced_log_prob, refusal
from hypothesis import given, settings
from hypothesis import strategies as st
from inference.conftest import WORDS
from inference.random_translators import random_translator, searches
from tokenizer_kinds import tokenizer_of

from nmt.inference.onnx.export import ENGINES
from nmt.inference.prefix import PrefixReader
from nmt.inference.translator import Translator
from nmt.search.options import SearchOptions
from nmt.text.specials import EOS
from nmt.text.tokenizer import Tokenizer

LINE = st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map(" ".join)
PREFIX = st.tuples(LINE, st.integers(0, 20), st.sampled_from(["", " "])).map(
    lambda parts: parts[0][: parts[1]].strip() + parts[2]
)
SEARCHES = searches(SearchOptions(beam_size=4, n_best=3, max_length=6))


@pytest.fixture
def folder(exported_model: Callable[[str], Path]) -> Path:
    return exported_model("memory")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("method", "engine"), [*((method, "torch") for method in SEARCHES), *(("beam", engine) for engine in ENGINES)]
)
def test_translation_begins_with_its_prefix_in_every_batch(folder: Path, engine: str, method: str) -> None:
    translator = Translator.load(folder, engine=engine, device="cpu", threads=1)
    options = SEARCHES[method]

    @settings(max_examples=20)
    @given(st.lists(st.tuples(LINE, PREFIX), min_size=1, max_size=4))
    def check(pairs: list[tuple[str, str]]) -> None:
        lines, prefixes = zip(*pairs, strict=True)
        for line, prefix, translation in zip(
            lines, prefixes, translator.translate(lines, options, prefixes=prefixes), strict=True
        ):
            [alone] = translator.translate([line], options, prefixes=[prefix])
            assert [best.tokens for best in alone.n_best] == [best.tokens for best in translation.n_best]
            for best in translation.n_best:
                assert best.text.startswith(prefix.strip())
                assert not prefix.endswith(" ") or f"{best.text} ".startswith(prefix.lstrip())
                assert best.log_prob == pytest.approx(forced_log_prob(translator, line, best.tokens), rel=1e-4)

    check()


@pytest.mark.parametrize("text", ["dog", "hou", "日", "x", "two "])
def test_last_word_may_be_spelled_and_continued_in_every_way(vocabulary: Tokenizer, text: str) -> None:
    tokenizer = vocabulary
    prefix = PrefixReader(tokenizer).read(text)
    spellings = tokenizer.spellings
    expected = b" " + text.strip().encode()
    first = len(tokenizer.encode(text)) if text.endswith(" ") else 0
    fixed = tokenizer.encode(text)[:first]
    for pair in itertools.product([EOS, *range(4, len(tokenizer))], repeat=2):
        place = first
        for piece in pair:
            place = place if place == len(prefix) else prefix[place].get(piece, -1)
            if place < 0:
                break
        spelled = b"".join(spellings[piece] for piece in (*fixed, *pair))
        complete = pair[0] == EOS or spelled.startswith(expected + b" ") if fixed else spelled.startswith(expected)
        assert (place == len(prefix)) == complete, pair


@pytest.mark.parametrize("text", ["a man in a blue shi", "a man i", "a man in "])
def test_tokenizer_may_write_spaces_behind_words(text: str) -> None:
    tokenizer = tokenizer_of("suffix")
    prefix = PrefixReader(tokenizer).read(text)
    place = 0
    for piece in tokenizer.encode("a man in a blue shirt"):
        place = place if place == len(prefix) else prefix[place][piece]
    assert place == len(prefix)


def test_wrong_prefixes_are_refused_in_one_line() -> None:
    translator = random_translator()
    for prefixes in ([], ["a"], ["a", "b", "c"]):
        assert refusal(translator.translate, ["a", "dog"], prefixes=prefixes).startswith("prefixes: ")
    with pytest.raises(TypeError, match=r"^prefixes"):
        translator.translate(["a", "dog"], prefixes="a dog")
