"""Every Python entry point refuses a string where a list is meant, and other values that would be read as one.

One string is an iterable of letters, and a mapping one of its keys: earlier versions translated each letter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import LUONG, save_random, tiny_config

import nmt
from nmt.api import SEVERAL
from nmt.errors import UserError
from nmt.inference import Translate
from nmt.inference.forced_decoding import force_decode, forced_links
from nmt.model.build import ATTENTION
from nmt.search.options import SearchOptions
from nmt.settings.plugins import construct
from nmt.text.tokenizer import Tokenizer

LINES = ["a small dog", "two cats sleep here today"]
SHORT = SearchOptions(beam_size=2, max_length=3)


@dataclass
class Model:
    translator: nmt.Translator
    column: Translate
    folder: Path


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    folder = tmp_path_factory.mktemp("model")
    tokenizer = Tokenizer.train([" ".join(LINES)], vocab_size=290)
    save_random(folder, tiny_config(LUONG), tokenizer, scale=2.0)
    return Model(nmt.Translator.load(folder, threads=1), Translate(model=folder, threads=1, search=SHORT), folder)


Call = Callable[[Model, Any], Any]


class Frame:
    """A stand-in for a pandas DataFrame: its items are the names of its columns."""

    columns = ("text",)
    iloc = None

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)


# The value of each entry stands where a list of strings is meant.
LISTS: dict[str, Call] = {
    "translate": lambda model, value: model.translator.translate(value, SHORT),
    "texts": lambda model, value: model.translator.texts(value, SHORT),
    "group": lambda model, value: list(model.translator.translate_groups([value], SHORT)),
    "sources": lambda model, value: model.translator.evaluate(value, LINES, SHORT),
    "references": lambda model, value: model.translator.evaluate(LINES, value, SHORT),
    "column": lambda model, value: model.column({"text": value}),
    "forced sources": lambda model, value: force_decode(model.translator, value, LINES),
    "forced links": lambda model, value: forced_links(model.translator, LINES, value),
    "Translator.load trust": lambda model, value: nmt.Translator.load(model.folder, threads=1, trust=value),
    "Translate trust": lambda model, value: Translate(model=model.folder, trust=value),
    "trust of a configuration": lambda model, value: construct({"_target_": "a.B"}, ATTENTION, trust=value),
    "columns": lambda model, value: nmt.train("name=x", train=[], valid=[], columns=value),
}
# Here a list of something else is meant.
OTHER_LISTS: dict[str, Call] = {
    "groups": lambda model, value: list(model.translator.translate_groups(value, SHORT)),
    "score": lambda model, value: model.translator.score(value),
    "align": lambda model, value: model.translator.align(value),
    "train": lambda model, value: nmt.train("name=x", train=value, valid=[("a", "b")]),
    "valid": lambda model, value: nmt.train("name=x", train=[("a", "b")], valid=value),
    "test": lambda model, value: nmt.train("name=x", train=[("a", "b")], valid=[("a", "b")], test=value),
}
# Here one string is meant, and nothing else.
TEXTS: dict[str, Call] = {
    "encode": lambda model, value: model.translator.encode(value),
    "heatmap source": lambda model, value: model.translator.heatmap(value, "a dog"),
    "setting": lambda model, value: nmt.train(value),
    "column name": lambda model, value: Translate(model=model.folder, column=value),
    "output name": lambda model, value: Translate(model=model.folder, output=value),
}
BAD_LISTS: dict[str, Any] = {
    "string": "the dog",
    "numpy string": np.str_("the dog"),
    "bytes": b"the dog",
    "dict": {"text": "the dog"},
    "set": {"the dog", "a cat"},
    "None": None,
    "number": 3,
    "array without dimensions": np.array("the dog"),
    "frame": Frame(),
}
BAD_ITEMS: dict[str, Any] = {
    "nested": [LINES],
    "None inside": ["a", None],
    "number inside": [1],
    "bytes inside": [b"a dog"],
    "dict inside": [{"text": "a"}],
    "two dimensions": np.array([LINES]),
    "numbers": np.arange(2),
    "array inside": [np.array([[1], [2]])],
}


def refuses(call: Callable[[], Any], kind: type[Exception] | tuple[type[Exception], ...] = TypeError) -> str:
    """Call a function that must raise, and return the message: the value, the problem, the fix."""
    with pytest.raises(kind) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message and re.match(r"^[\w.\[\]']+( \d+)?(=|: )", message), message
    return message


@pytest.mark.parametrize("bad", BAD_LISTS.values(), ids=BAD_LISTS)
@pytest.mark.parametrize("call", [*LISTS.values(), *OTHER_LISTS.values()], ids=[*LISTS, *OTHER_LISTS])
def test_value_other_than_a_list_is_refused(model: Model, call: Call, bad: Any) -> None:
    if bad is None and call in (OTHER_LISTS["test"], OTHER_LISTS["train"], OTHER_LISTS["valid"], LISTS["columns"]):
        return  # the default
    assert "; give a list of " in refuses(lambda: call(model, bad))


@pytest.mark.parametrize("bad", BAD_ITEMS.values(), ids=BAD_ITEMS)
@pytest.mark.parametrize("call", LISTS.values(), ids=LISTS)
def test_item_other_than_a_string_is_refused(model: Model, call: Call, bad: Any) -> None:
    if call is LISTS["column"] and bad is BAD_ITEMS["None inside"]:
        assert call(model, bad)["translation"][1] is None
        return
    assert re.search(r"not a string|neither a string nor None", refuses(lambda: call(model, bad)))


@pytest.mark.parametrize("call", OTHER_LISTS.values(), ids=OTHER_LISTS)
def test_item_of_several_lines_is_shown_on_one(model: Model, call: Call) -> None:
    refuses(lambda: call(model, BAD_ITEMS["array inside"]), (TypeError, UserError))


@pytest.mark.parametrize("bad", [v for k, v in {**BAD_LISTS, **BAD_ITEMS, "list": LINES}.items() if "str" not in k])
@pytest.mark.parametrize("call", TEXTS.values(), ids=TEXTS)
def test_value_other_than_a_string_is_refused(model: Model, call: Call, bad: Any) -> None:
    if not isinstance(bad, str):
        assert "not a string; give text" in refuses(lambda: call(model, bad))


@pytest.mark.parametrize("bad", ["name=a attention=luong", "name=a\nseed=2", "name=a +x.y=1", "seed=1  trust=[a]"])
def test_several_settings_in_one_string_are_refused(bad: str) -> None:
    assert "several settings in one string; give each" in refuses(lambda: nmt.train(bad), UserError)


@pytest.mark.parametrize("good", ["name=a b", "name='a b=c'", "data.columns=[a b=c, d]", "data.train.src=a=b.en", "x="])
def test_values_with_spaces_stay_one_setting(good: str) -> None:
    assert not SEVERAL.fullmatch(good)


@pytest.mark.parametrize("bad", ["the dog", ["the dog"], 3, None, b"x", np.array([[1], [2]]), len])
def test_a_batch_without_columns_is_refused(model: Model, bad: Any) -> None:
    assert "give a dictionary of columns or a table" in refuses(lambda: model.column(bad))


def test_lists_of_other_types_work(model: Model) -> None:
    expected = model.translator.texts(LINES, SHORT)
    keys = dict.fromkeys(LINES).keys()  # in order, unlike a set
    for lines in (tuple(LINES), iter(LINES), np.array(LINES), np.array(LINES, dtype=object), keys):
        assert model.translator.texts(lines, SHORT) == expected
    assert [*model.translator.translate_groups((iter([line]) for line in LINES), SHORT)][1][0].text == expected[1]
    assert model.translator.encode(np.str_(LINES[0])) == model.translator.encode(LINES[0])
    assert model.translator.texts([], SHORT) == model.translator.texts(iter(()), SHORT) == []


def test_pandas_columns_work_and_frames_are_refused(model: Model) -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = pandas.DataFrame({"text": LINES, "n": [1, 2]})
    assert model.translator.texts(frame["text"], SHORT) == model.translator.texts(LINES, SHORT)
    assert "DataFrame, a table; give a list of lines" in refuses(lambda: model.translator.texts(frame))
    advice = refuses(lambda: nmt.train(train=frame, valid=[], columns=["text", "n"]))
    assert "a table; give a list of (source, target) pairs" in advice and advice.endswith(".to_dict('records')")
    assert "lines[0]=" in refuses(lambda: model.translator.texts(pandas.Series([None, "a"], dtype=object)))
