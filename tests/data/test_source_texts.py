"""Every text that a data source yields reaches the corpus: unchanged, or replaced as documented."""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from builders import expect_error, refusal
from hypothesis import example, given, settings
from hypothesis import strategies as st
from small_text import SETTINGS

from nmt.data.filters import Filters
from nmt.data.links import Pair
from nmt.data.sources import DataSettings, load_pairs
from nmt.settings.build import build
from nmt.text.prepare import Prepared, open_prepared, prepare
from nmt.text.tokenizer import Tokenizer

HARD = [
    "\0",
    "\x01",
    "\x1c",
    "\x85",
    "\u2028",
    "\u2029",
    "\ufeff",
    "\r",
    "\t",
    "▁",
    "\U0010ffff",
    "\u202e",
    "é",
    "e\u0301",
]
SURROGATES = ["\ud800", "\udfff", "\ud83d\ude00"]
CHARACTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\n")
TEXTS = st.lists(CHARACTERS | st.sampled_from([*HARD, *SURROGATES, "\n"]), max_size=20).map("".join)
CONTROLS = [chr(code) for code in [*range(32), 127] if not chr(code).isspace()]
REMOVED = rf"\x1b\[[\d;]*[A-Za-z]|[\ufeff{''.join(CONTROLS)}]"
WORDS = ("the dog sees a cat", "der Hund sieht eine Katze")


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train([*WORDS, *HARD], vocab_size=290)


@pytest.fixture(scope="module")
def plugin() -> Iterator[ModuleType]:
    """Yield a module with a data source ``source``, which yields the parts in its attribute ``parts``."""
    module = ModuleType("plugin_pairs")
    exec("parts = {}\ndef source():\n    return parts", vars(module))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, module.__name__, module)
        yield module


def load(plugin: ModuleType, parts: dict[str, Any], **data: Any) -> dict[str, list[Pair]]:
    plugin.parts = parts  # type: ignore[attr-defined]
    return load_pairs(build(DataSettings, {"_target_": "plugin_pairs.source", **data}), trust=["plugin_pairs"])


def through_a_folder(parts: dict[str, list[Pair]], tokenizer: Tokenizer) -> Prepared:
    with tempfile.TemporaryDirectory() as folder:
        prepare(parts, Filters(), SETTINGS, Path(folder), tokenizers=(tokenizer, tokenizer))
        return open_prepared(Path(folder))  # the map remains valid without the file


def replaced(text: str) -> str:
    """Return the text with U+FFFD for lone surrogates, without controls and byte order marks, as documented."""
    text = "".join("\ufffd" if "\ud800" <= character <= "\udfff" else character for character in text)
    visible = re.sub(REMOVED, "", text)
    if not visible.strip():
        return visible
    # A word of nothing but removed characters stays a word.
    return "".join(re.sub(REMOVED, "", run) or (run and "\u00a0") for run in re.split("([ \t]+)", text))


def decoded(text: str) -> str:
    """Return the text that the documented ids of ``text`` stand for."""
    return " ".join(replaced(text).replace("▁", "_").split())


def check(prepared: Prepared, part: str, pairs: list[tuple[str, str]]) -> None:
    corpus = prepared.corpora[part]
    assert corpus.sources() == [replaced(source) for source, _ in pairs]
    assert corpus.targets() == [replaced(target) for _, target in pairs]
    for row, pair in enumerate(pairs):
        for ids, text in zip(corpus.ids(row), pair, strict=True):
            assert prepared.source.decode(ids.tolist()) == decoded(text)


@pytest.mark.thorough
@settings(max_examples=60)
@given(pairs=st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=5))
@example(pairs=[("dog " * 2500, "x" * 10_000)])
def test_every_text_of_a_plugin_survives(
    plugin: ModuleType, tokenizer: Tokenizer, pairs: list[tuple[str, str]]
) -> None:
    train = [*pairs, WORDS]
    prepared = through_a_folder(load(plugin, {"train": train, "valid": pairs}), tokenizer)
    check(prepared, "valid", pairs)  # in order, with empty sides
    check(prepared, "train", [pair for pair in train if decoded(pair[0]) and decoded(pair[1])])


@pytest.mark.parametrize(
    "pair",
    [
        None, 3, "ab", (), ("a",), ("a", b"b"), {"a": "b"},
        ("a", "b", 3), ("a", "b", ((0,),)), ("a", "b", ((0, 0, 0),)), ("a", "b", ((0, 1),)), ("a", "b", ((-1, 0),)),
        ("a", "b", ((0.5, 0),)), ("a", "b", (("0", 0),)), ("a", "b", (), ((1, 0),)), ("a", "b", (), None),
        ("a", "b", (), (), ()),
    ],
)  # fmt: skip
def test_wrong_pairs_of_a_plugin_are_reported_in_one_line(plugin: ModuleType, pair: Any) -> None:
    expect_error(
        r"^data: pair 2 of part train(:| is .*;) ",
        load,
        plugin,
        {"train": [("a", "b", ((0, 0),)), pair]},
    )


def test_links_may_be_any_iterable(plugin: ModuleType) -> None:
    pairs = [("a b", "c d", zip(range(2), range(2), strict=True), iter([(0, 1)])), ("a", "b", [(0, 0)])]
    expected = [Pair("a b", "c d", ((0, 0), (1, 1)), ((0, 1),)), Pair("a", "b", ((0, 0),))]
    assert load(plugin, {"train": pairs})["train"] == expected


def test_any_iterable_of_two_texts_is_a_part(plugin: ModuleType) -> None:
    parts = {"train": [["A b", "C"], ("D", "E")], "test": []}
    assert load(plugin, parts) == {"train": [Pair("A b", "C"), Pair("D", "E")], "test": []}
    assert load(plugin, parts, lowercase=True)["train"] == [Pair("a b", "c"), Pair("d", "e")]


def test_mistakes_of_a_source_are_one_line(plugin: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    def pairs() -> Iterator[tuple[str, str]]:
        yield "a", "b"
        raise ValueError("line 2 has no tab")

    expect_error("data._target_", load, plugin, {"train": 3})
    assert refusal(load, plugin, {"train": pairs()}) == "data._target_=plugin_pairs.source: line 2 has no tab"
    monkeypatch.setattr(plugin, "source", plugin.source)  # so that it returns
    exec("def source():\n    raise ValueError('no table here')", vars(plugin))
    assert refusal(load, plugin, {}) == "data._target_=plugin_pairs.source: no table here"
