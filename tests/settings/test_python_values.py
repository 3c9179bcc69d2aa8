"""Every Python entry point refuses a string where a list is meant, and other values that would be read as one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from builders import LUONG, save_random, tiny_config

import nmt
from nmt.errors import UserError
from nmt.search.options import SearchOptions
from nmt.text.tokenizer import Tokenizer

LINES = ["a small dog", "two cats sleep here today"]
SHORT = SearchOptions(beam_size=2, max_length=3)


class Frame:
    """A stand-in for a DataFrame: its items are the names of its columns."""

    columns = __iter__ = ("text",).__iter__


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> nmt.Translator:
    folder = tmp_path_factory.mktemp("model")
    save_random(folder, tiny_config(LUONG), Tokenizer.train([" ".join(LINES)], vocab_size=290), scale=2.0)
    return nmt.Translator.load(folder, threads=1)


Call = Callable[[nmt.Translator, Any], Any]
# The value stands where a list of strings is meant.
TEXTS: list[Call] = [
    lambda translator, value: translator.texts(value, SHORT),
    lambda translator, value: list(translator.translate_groups([value], SHORT)),
    lambda translator, value: translator.evaluate(value, LINES, SHORT),
    lambda translator, value: translator.evaluate(LINES, value, SHORT),
    lambda translator, value: nmt.Translator.load("run", trust=value),
    lambda translator, value: nmt.train("name=x", train=[], valid=[], columns=value),
]
# Here a list of something else is meant.
LISTS: list[Call] = [
    lambda translator, value: list(translator.translate_groups(value, SHORT)),
    lambda translator, value: translator.score(value),
    lambda translator, value: translator.align(value),
    lambda translator, value: nmt.train("name=x", train=value, valid=[("a", "b")]),
]
NO_LISTS = ["the dog", np.str_("the dog"), b"the dog", {"text": "the dog"}, {"the dog"}, 3, np.array("dog"), Frame()]
NO_TEXTS = [[LINES], ["a", None], [1], [b"a dog"], np.array([LINES]), np.arange(2)]


@pytest.mark.parametrize("call", [*TEXTS, *LISTS])
def test_value_other_than_a_list_is_refused(translator: nmt.Translator, call: Call) -> None:
    for value in NO_LISTS:
        with pytest.raises(TypeError) as caught:
            call(translator, value)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("call", TEXTS)
def test_item_other_than_a_string_is_refused(translator: nmt.Translator, call: Call) -> None:
    for value in NO_TEXTS:
        with pytest.raises(TypeError):
            call(translator, value)


@pytest.mark.parametrize("bad", ["name=a attention=luong", "name=a\nseed=2", "seed=1  trust=[a]"])
def test_several_settings_in_one_string_are_refused(bad: str) -> None:
    with pytest.raises(UserError):
        nmt.train(bad)


def test_lists_of_other_types_work(translator: nmt.Translator) -> None:
    expected = translator.texts(LINES, SHORT)
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    keys = dict.fromkeys(LINES).keys()  # in order, unlike a set
    series = pandas.Series(LINES)
    for lines in (tuple(LINES), iter(LINES), np.array(LINES), np.array(LINES, dtype=object), keys, series):
        assert translator.texts(lines, SHORT) == expected
    assert [*translator.translate_groups((iter([line]) for line in LINES), SHORT)][1][0].text == expected[1]
    assert translator.texts([], SHORT) == translator.texts(iter(()), SHORT) == []
