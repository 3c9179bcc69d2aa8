"""Data sources: what they may return, and how their mistakes are reported."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from builders import refusal

from nmt.data.pair import Pair
from nmt.data.sources import DataSettings, load_pairs
from nmt.settings.build import build

SOURCES = """
def lists():
    return {"train": [["A b", "C"], ("D", "E")], "test": []}

def refuses():
    raise ValueError("no table here")

def generator():
    yield "a", "b"
    raise ValueError("line 2 has no tab")

def generators():
    return {"train": generator()}
"""


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    (tmp_path / "outside_sources.py").write_text(SOURCES)
    monkeypatch.syspath_prepend(tmp_path)

    def load_from(name: str, **settings: object) -> dict[str, list[Pair]]:
        data = build(DataSettings, {"_target_": f"outside_sources.{name}", **settings})
        return load_pairs(data, trust=["outside_sources"])

    yield load_from


def test_any_iterable_of_two_texts_is_a_part(load) -> None:  # type: ignore[no-untyped-def]
    assert load("lists") == {"train": [Pair("A b", "C"), Pair("D", "E")], "test": []}
    assert load("lists", lowercase=True)["train"] == [Pair("a b", "c"), Pair("d", "e")]


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("refuses", "data._target_=outside_sources.refuses: no table here"),
        ("generators", "data._target_=outside_sources.generators: line 2 has no tab"),
    ],
)
def test_mistakes_of_a_source_are_one_line(load, name: str, problem: str) -> None:  # type: ignore[no-untyped-def]
    assert refusal(load, name) == problem
